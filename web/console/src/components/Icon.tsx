/** The icons, drawn with the colour of the text around them. They are decoration: labels carry the meaning. */
const paths = {
  plus: "M10 4v12M4 10h12",
  menu: "M3 6h14M3 10h14M3 14h14",
  close: "M5 5l10 10M15 5L5 15",
  inbox: "M3 11l2.5-6.5h9L17 11v4.5H3V11zm0 0h4l1 2h4l1-2h4",
  image: "M3.5 4.5h13v11h-13zM4 14l4-4 3 3 2-2 3.5 3.5M12.5 8v.01",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  check: "M4 10.5l4 4 8-9",
  cross: "M5.5 5.5l9 9M14.5 5.5l-9 9",
  pencil: "M4 16l.8-3.5L13 4.3l2.7 2.7-8.2 8.2L4 16z",
  clock: "M10 3a7 7 0 100 14 7 7 0 000-14zm0 3v4l2.5 2",
  chevron: "M7 4l6 6-6 6",
  shield: "M10 3l6 2v5c0 3.5-2.5 6-6 7-3.5-1-6-3.5-6-7V5l6-2z",
  tool: "M12.5 3.5a4 4 0 00-4.8 5.2L3.5 13a1.8 1.8 0 002.5 2.5l4.3-4.2a4 4 0 005.2-4.8L13 9l-2-2 2.5-2.5-1-1z",
  question: "M7.5 7.5A2.5 2.5 0 1111 9.8c-.7.4-1 .8-1 1.7M10 14.5v.01",
  warning: "M10 3.5l7 12.5H3l7-12.5zm0 4.5v4m0 2v.01",
  up: "M10 16V4M5 9l5-5 5 5",
  back: "M16 10H4M9 5l-5 5 5 5",
  down: "M10 4v12M5 11l5 5 5-5",
  people: "M7.5 9a2.5 2.5 0 100-5 2.5 2.5 0 000 5zM3 16c0-2.8 1.8-4.5 4.5-4.5S12 13.2 12 16M13 4.3a2.5 2.5 0 010 4.5M14 11.7c1.9.5 3 2 3 4.3",
  hand: "M3 10h12M11 5.5l4.5 4.5-4.5 4.5",
  repeat: "M4 9a6 6 0 0110.5-3L16 7.5M16 4v3.5h-3.5M16 11a6 6 0 01-10.5 3L4 12.5M4 16v-3.5h3.5",
  comment: "M4 4.5h12v9H9l-3.5 3v-3H4v-9z",
  outside: "M11 4h5v5M16 4l-7.5 7.5M13.5 11.5V16H4V6.5h4.5",
  search: "M9 3.5a5.5 5.5 0 100 11 5.5 5.5 0 000-11zM13 13l4 4",
  bin: "M4 6h12M8 6V4h4v2M5.5 6l.8 10h7.4l.8-10M8.5 9v4.5M11.5 9v4.5",
  graph: "M7.5 3h5v4h-5zM3 13h5v4H3zM12 13h5v4h-5zM10 7v3M5.5 13v-3h9v3",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
