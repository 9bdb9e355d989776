// Uses the types that openapi-typescript generates from docs/openapi.json.
import createClient from "openapi-fetch";
import type { paths } from "./api.mjs";

declare const process: { argv: string[]; exit(code: number): never };

const client = createClient<paths>({ baseUrl: process.argv[2], headers: { Authorization: `Bearer ${process.argv[3]}` } });

function check(what: string, holds: boolean, got: unknown) {
  if (!holds) {
    console.log(what, JSON.stringify(got));
    process.exit(1);
  }
}

const sent = await client.POST("/messages", {
  body: { exchange: "shop", routing_key: "other", text: "hi", properties: { message_id: "typescript" } },
});
check("publish", sent.data?.message_id === "typescript", sent.error);
const page = await client.GET("/events", { params: { query: { query: "action: poisoned", limit: 1 } } });
check("search", page.data?.events[0].watership?.queue === "orders", page.error ?? page.data);
const groups = await client.GET("/failures/groups");
check("groups", groups.data?.failures === 1, groups.error ?? groups.data);
const plan = await client.POST("/replays/plan", { body: { query: "action: poisoned", target: { kind: "failed_queue" } } });
check("plan", plan.data?.matched === 1, plan.error ?? plan.data);
const wrong = await client.GET("/events", { params: { query: { query: "acton: poisoned" } } });
check("problem", wrong.error?.status === 400 && wrong.error.position?.offset === 0, wrong.data);
console.log("ok");
