package routes

import "testing"

// The store is asked about keys that are one field by which it finds events.
func TestSearchedKeys(t *testing.T) {
	for template, want := range map[string]string{
		"{headers.account}": "headers.account", "{body.json.account.id}": "body.json.account.id",
		"a-{headers.account}": "", "{headers.a}-{headers.b}": "", "{message.id}": "", "{body:/account/id}": "", "": "",
	} {
		if got, searched := searchedKey(template); searched != (want != "") || searched && got != want {
			t.Errorf("%s: %s, %t", template, got, searched)
		}
	}
}
