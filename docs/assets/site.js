// What the theme leaves out for screen readers and keyboards. Scripts of the theme add these elements later.
let count = 0;
const complete = () => {
  for (const nav of document.querySelectorAll(".md-code__nav:not([aria-label])")) {
    count += 1;
    nav.setAttribute("aria-label", `Code block ${count}`);
  }
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    if (wide.scrollWidth > wide.clientWidth) wide.setAttribute("tabindex", "0");
  }
};
complete();
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
