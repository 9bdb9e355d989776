// Reads the page again if parts of it were not ready at once.
import { refresh } from "./console.js";

const late = document.querySelector("[data-late]");
if (late) refresh(late.dataset.late === "asked" ? late.querySelector("a").href : location.href);
