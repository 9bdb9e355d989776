// Reads the page again if parts of it were not ready at once.
import { refresh } from "./console.js";

if (document.querySelector("[data-late]")) refresh();
