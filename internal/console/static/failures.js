// The page of failures: one button selects all rows.
import { announce } from "./console.js";

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-select-all]");
  if (!button) return;
  const boxes = [...button.form.querySelectorAll("tbody input[type=checkbox]")];
  const all = boxes.every((box) => box.checked);
  for (const box of boxes) box.checked = !all;
  announce(all ? "Nothing selected" : `${boxes.length} selected`);
});
