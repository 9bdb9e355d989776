// The page of an edit: a review is shown in place, so that the text and its position stay.
import { announce } from "./console.js";

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (event.submitter?.value !== "review") return;
  event.preventDefault();
  try {
    const response = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.getElementById("reviewed");
    if (!next) return form.submit(); // the page of the answer says why; without a button it is a review, too
    document.getElementById("reviewed").replaceWith(document.adoptNode(next));
    announce(next.innerText);
    next.scrollIntoView({ block: "nearest" });
  } catch {
    const note = document.createElement("p");
    note.className = "note";
    note.setAttribute("role", "alert");
    note.textContent = "The server did not answer, and nothing was sent. Review the message again.";
    document.getElementById("reviewed").replaceChildren(note);
  } finally {
    delete form.dataset.sent; // it was not sent
  }
});
