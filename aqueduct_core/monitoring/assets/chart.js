// One line over time, as SVG. A pointer or the arrow keys read a value off it.

import { make } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 120;
const SPAN = 600;

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** The next round number that is not below `value`: 1, 2, 5, 10, 20 …, of bytes in their own units. */
export function ceiling(value, base = 1) {
  if (!(value > 0)) return base;
  let unit = 1;
  while (base > 1 && value / unit >= base) unit *= base;
  const power = 10 ** Math.floor(Math.log10(value / unit)) * unit;
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value * 0.999999);
}

export class Chart {
  /** `format` turns a value into text; `title` names what is measured; `base` is 1024 of bytes. */
  constructor(title, format, base = 1) {
    this.title = title;
    this.base = base;
    this.format = format;
    this.points = [];
    this.at = null;
    this.area = shape("path", { class: "area" });
    this.line = shape("path", { class: "line" });
    this.cursor = shape("path", { class: "cursor" });
    this.picture = shape("svg", {
      class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", tabindex: "0", role: "img",
    });
    for (const y of [0.5, HEIGHT / 2, HEIGHT - 0.5]) {
      this.picture.append(shape("path", { class: "grid", d: `M0 ${y}H${WIDTH}` }));
    }
    this.picture.append(this.area, this.line, this.cursor);
    this.output = make("output", {});
    this.top = make("span", { class: "top", "aria-hidden": "true" });
    this.element = make("figure", {},
      make("figcaption", {}, make("span", {}, title), this.output),
      make("div", { class: "plot" }, this.picture, this.top),
      make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, "10 min ago"), make("span", {}, "now")));
    this.picture.addEventListener("pointermove", (event) => {
      const box = this.picture.getBoundingClientRect();
      this.read(this.nearest(((event.clientX - box.left) / box.width) * WIDTH));
    });
    this.picture.addEventListener("pointerleave", () => this.read(null));
    this.picture.addEventListener("blur", () => this.read(null));
    this.picture.addEventListener("keydown", (event) => this.key(event));
  }

  /** `points` are {at, value}, in order, `at` in seconds; `now` is the right edge. */
  show(points, now) {
    const read = this.at === null ? null : this.points[this.at]?.at;
    this.points = points;
    this.now = now;
    this.most = ceiling(Math.max(0, ...points.map((each) => each.value)), this.base);
    const path = points.map((each, n) => `${n ? "L" : "M"}${this.x(each).toFixed(1)} ${this.y(each).toFixed(1)}`).join("");
    this.line.setAttribute("d", path);
    const first = points[0];
    const last = points[points.length - 1];
    this.area.setAttribute("d", points.length ? `${path}L${this.x(last).toFixed(1)} ${HEIGHT}L${this.x(first).toFixed(1)} ${HEIGHT}Z` : "");
    this.top.textContent = this.format(this.most);
    const highest = points.length ? Math.max(...points.map((each) => each.value)) : 0;
    const now_ = last ? this.format(last.value) : "nothing yet";
    this.picture.setAttribute("aria-label", `${this.title}: now ${now_}, at most ${this.format(highest)} in ten minutes. Arrow keys read values.`);
    const found = read === null ? -1 : points.findIndex((each) => each.at === read);
    this.read(found < 0 ? null : found);
  }

  x(point) { return WIDTH * (1 - (this.now - point.at) / SPAN); }

  y(point) { return HEIGHT - 1 - (HEIGHT - 2) * Math.min(1, point.value / this.most); }

  nearest(x) {
    let best = null;
    this.points.forEach((each, n) => {
      if (best === null || Math.abs(this.x(each) - x) < Math.abs(this.x(this.points[best]) - x)) best = n;
    });
    return best;
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -15, PageDown: 15 }[event.key];
    const last = this.points.length - 1;
    if (event.key === "Escape") this.read(null);
    else if (event.key === "Home" && last >= 0) this.read(0);
    else if (event.key === "End" && last >= 0) this.read(last);
    else if (step !== undefined && last >= 0) this.read(Math.max(0, Math.min(last, (this.at ?? last) + step)));
    else return;
    event.preventDefault();
  }

  read(at) {
    this.at = at;
    const point = at === null ? this.points[this.points.length - 1] : this.points[at];
    if (point === undefined) {
      this.output.textContent = "–";
      this.cursor.setAttribute("d", "");
      return;
    }
    const clock = new Date(point.at * 1000).toLocaleTimeString([], { hour12: false });
    this.output.textContent = at === null ? this.format(point.value) : `${clock}  ${this.format(point.value)}`;
    this.cursor.setAttribute("d", at === null ? "" : `M${this.x(point).toFixed(1)} 0V${HEIGHT}`);
  }
}
