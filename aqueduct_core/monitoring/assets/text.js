// Numbers as people read them, and elements made of text. What a peer wrote comes here as text and
// never as markup: nothing on this page is made with innerHTML.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;

export function number(value) {
  return whole.format(value);
}

export function short(value) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) return `${few.format(value / (unit === "k" ? 1e3 : size))} ${unit}`;
  }
  return Math.abs(value) >= 100 ? whole.format(value) : few.format(value);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at === 0 ? whole.format(value) : few.format(value)} ${units[at]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.9995) return `${few.format(value * 1000)} ms`;
  if (value < 60) return `${few.format(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${whole.format(Math.floor(value % 60))} s`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor((value % 86400) / 3600)} h`;
}

/** A text of a peer: what cannot be seen, or turns the direction of writing, is shown as its code. */
export function foreign(text) {
  return String(text).replace(HIDDEN, (each) => `\\u${each.codePointAt(0).toString(16).padStart(4, "0")}`);
}

/** An element with attributes (a class as `class`) and children, which are elements or texts. */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/**
 * A table in a part that scrolls by itself. `columns` are {title, of, number, order, text}: `of` gives
 * a text or an element; `order` is what the column orders by when its title is pressed.
 */
export function table(caption, columns, rows, { ordered, reorder, none } = {}) {
  if (rows.length === 0) return make("div", { class: "scroll" }, make("p", { class: "none" }, none ?? "None."));
  const titles = columns.map((column) => {
    const sorted = column.order !== undefined && column.order === ordered;
    const direction = column.order === "name" || column.order === "tree" ? "ascending" : "descending";
    const heading = make("th", {
      scope: "col",
      class: column.number ? "number" : undefined,
      "aria-sort": sorted ? direction : undefined,
    });
    if (column.order === undefined) {
      heading.append(column.title);
    } else {
      const arrow = sorted ? (direction === "ascending" ? " ▲" : " ▼") : "";
      const button = make("button", { type: "button", "data-order": column.order }, column.title + arrow);
      button.addEventListener("click", () => reorder(column.order));
      heading.append(button);
    }
    return heading;
  });
  const body = rows.map((row) => make("tr", {}, ...columns.map((column, at) => {
    const shown = column.of(row);
    const kind = [column.number && "number", column.text && "text", column.kind?.(row)].filter(Boolean).join(" ");
    const title = typeof shown === "string" && (at === 0 || column.text) ? shown : undefined;
    return make(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : undefined, class: kind || undefined, title }, shown);
  })));
  return make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...titles)), make("tbody", {}, ...body)));
}
