/** The styles of the pages that are loaded after the first: in this order, since some rules refine others. */
import "./chat.css";
import "./steps.css";
import "./card.css";
import "./editor.css";
import "./args.css";
import "./resolved.css";
import "./question.css";
import "./interrupt.css";
import "./inbox.css";
import "./people.css";
import "./rules.css";
import "./graph.css";
import "./past.css";
import "./audit.css";
import "./webhooks.css";
import "./print.css";
