package simulation

import "slices"

// editHeader is the header that some replays set.
const editHeader = "edit"

// checkEdits reports messages that were edited and sent, and that no handler got as they were edited, and those that
// a handler got with an edit that no job made.
func checkEdits(o *oracle) {
	edits := map[string]sending{}
	for _, s := range o.replays {
		if s.edit != "" {
			edits[s.edit] = s
		}
	}
	got := map[string]map[string]bool{} // ids of messages by edit
	for _, c := range o.calls {
		if c.edit == "" {
			continue
		}
		if got[c.edit] == nil {
			got[c.edit] = map[string]bool{}
		}
		got[c.edit][c.id] = true
		if s, done := edits[c.edit]; done && (!slices.Contains(s.ids, c.id) || c.begun.Before(s.began)) {
			o.world.fail("%s handles %s with %q, which job %s did not make of it", c.life.name, c.id, c.edit, s.job)
		}
	}
	for _, s := range o.replays {
		for id := range o.replayed[s.job] {
			if s.edit != "" && !got[s.edit][id] && !o.losses.mayLack(s, id) {
				o.world.fail("%s was edited by job %s, and no handler got it with %q", id, s.job, s.edit)
			}
		}
	}
}
