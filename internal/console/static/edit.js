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
    const problem = page.querySelector(".problem"); // of a page without a form
    if (!next && !problem) throw new Error(response.statusText);
    if (!next) return show(document.adoptNode(problem));
    document.getElementById("reviewed").replaceWith(document.adoptNode(next));
    announce(next.innerText);
    next.scrollIntoView({ block: "nearest" });
  } catch {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "The server did not review the message, and nothing was sent. Try again.";
    show(note);
  } finally {
    delete form.dataset.sent; // it was not sent
  }
});

// show shows why there is no review. The text stays.
function show(why) {
  why.setAttribute("role", "alert");
  document.getElementById("reviewed").replaceChildren(why);
}
