//! Screenshots among the results of calls. As a text, one would be a hundred thousand letters of Base64 that say
//! nothing to a model.

use std::sync::Arc;

use super::{
    Conversation,
    message::{Message, ToolResult},
};
use crate::{
    content::{Content, Image, TakesImages, screen::WithScreenshot},
    limits,
    locale::Text,
};

impl ToolResult {
    fn screenshot(&self) -> Option<WithScreenshot<'_>> {
        WithScreenshot::of(&self.name, &self.text)
    }

    /// The result with a note in place of its screenshot, if it has one.
    pub(super) fn noted(&self, note: &str) -> Option<ToolResult> {
        let text = self.screenshot()?.noted(note);
        Some(ToolResult { text, ..self.clone() })
    }
}

impl Message {
    /// Whether it is a result with a screenshot.
    pub(super) fn has_screenshot(&self) -> bool {
        matches!(self, Message::ToolResult(result) if result.screenshot().is_some())
    }
}

impl Conversation {
    /// Puts the newest screenshots after the results of their answer, as images, for a model that takes images. Images
    /// in results are not accepted everywhere; in a user's message they are. A note replaces each among the results.
    pub(super) fn show_screenshots(&mut self, takes: TakesImages) {
        let (left_out, follows) = (self.locale.text(Text::ImageLeftOut), self.locale.text(Text::ScreenshotFollows));
        let mut left = if takes == TakesImages::None { 0 } else { limits::SHOWN_SCREENSHOTS };
        let messages = Arc::make_mut(&mut self.messages);
        // Those that are shown, the newest first.
        let mut shown: Vec<(usize, Image)> = Vec::new();
        for (at, message) in messages.iter_mut().enumerate().rev() {
            let Message::ToolResult(result) = message else { continue };
            let Some(screenshot) = result.screenshot() else { continue };
            let image = (left > 0).then(|| screenshot.image()).flatten();
            let text = screenshot.noted(if image.is_some() { follows } else { left_out });
            *message = ToolResult { text, ..(**result).clone() }.into();
            shown.extend(image.map(|image| (at, image)));
            left = left.saturating_sub(1);
        }
        let mut placed: Vec<Message> = Vec::with_capacity(messages.len() + shown.len());
        let mut behind = Content::default();
        let mut latest = None;
        for (at, message) in std::mem::take(messages).into_iter().enumerate() {
            if !matches!(message, Message::ToolResult(_)) && !behind.parts().is_empty() {
                placed.push(Message::User(std::mem::take(&mut behind)));
            }
            if at == self.latest.0 {
                latest = Some(placed.len());
            }
            if let (Message::ToolResult(result), Some((_, image))) = (&message, shown.pop_if(|(shown, _)| *shown == at))
            {
                let label = self.locale.fill(Text::ScreenshotOf, &[("tool", &result.name)]);
                behind = behind.with(label).with(image);
            }
            placed.push(message);
        }
        if !behind.parts().is_empty() {
            placed.push(Message::User(behind));
        }
        self.latest.0 = latest.unwrap_or(placed.len());
        *messages = placed;
        self.has_images = true;
        self.has_screenshots = false;
    }

    /// Drops the screenshots that no model will see again, since there are newer ones.
    pub(super) fn forget_old_screenshots(&mut self) -> bool {
        if !self.has_screenshots {
            return false;
        }
        let note = self.locale.text(Text::ImageLeftOut);
        let screenshot = |message: &&mut Message| message.has_screenshot();
        let old = Arc::make_mut(&mut self.messages).iter_mut().rev().filter(screenshot).skip(limits::SHOWN_SCREENSHOTS);
        let mut forgotten = false;
        for message in old {
            if let Message::ToolResult(result) = message
                && let Some(noted) = result.noted(note)
            {
                *message = noted.into();
                forgotten = true;
            }
        }
        forgotten
    }
}
