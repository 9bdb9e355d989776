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
    if (!next) throw new Error(response.statusText);
    document.getElementById("reviewed").replaceWith(document.adoptNode(next));
    announce(next.innerText);
    next.scrollIntoView({ block: "nearest" });
  } catch {
    announce("The review failed: try again");
  } finally {
    delete form.dataset.sent; // it was not sent
  }
});
