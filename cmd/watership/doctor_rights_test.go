package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Each privilege of the documented role that a login lacks is named, on all that it
// is lacked on, and no other.
func TestDoctorNamesTheRightsThatAreMissing(t *testing.T) {
	store := newSecured(t)
	full := documentedRole(t)
	roles := full.narrower(t)
	roles["nothing"] = full
	for lacking, user := range store.give(t, roles) {
		t.Run(lacking, func(t *testing.T) {
			list := store.findings(t, user)
			if lacking == "nothing" {
				wantFinding(t, list, fine, "", "rights: user "+user+" has those")
				return
			}
			want := "user " + user + " lacks " + full.without(lacking, user)
			found := saying(list, wrong, "rights: ")
			if found == nil || found.Detail != want || !strings.Contains(found.Remedy, "docs/security.md") {
				t.Errorf("%+v, want an error: %s", list, want)
			}
		})
	}
}

// findings are what doctor says to a user that has nothing but this store.
func (s secured) findings(t *testing.T, user string) (list []finding) {
	t.Helper()
	got := call(t.Context(), strings.NewReader(""), []string{
		"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/",
		"WATERSHIP_STORE_URL=" + s.url, "WATERSHIP_STORE_STREAM=" + user,
		"WATERSHIP_STORE_USERNAME=" + user, "WATERSHIP_STORE_PASSWORD_FILE=" + s.password(),
		"WATERSHIP_STORE_TLS_CA=" + s.tls().CA, "WATERSHIP_STORE_TLS_CERT=" + s.tls().Cert, "WATERSHIP_STORE_TLS_KEY=" + s.tls().Key,
	}, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil {
		t.Fatalf("%v\n%s%s", err, got.out, got.err)
	}
	return list
}

// without says what a narrower role lacks.
func (r role) without(lacking, stream string) string {
	kind, rest, _ := strings.Cut(lacking, " ")
	if kind == "cluster" {
		return rest + " for the cluster"
	}
	var n int
	var privilege string
	if _, err := fmt.Sscanf(rest, "%d %s", &n, &privilege); err != nil {
		return err.Error()
	}
	var texts []string
	for _, name := range r.Indices[n-1].Names {
		texts = append(texts, privilege+" on "+strings.ReplaceAll(name, "watership-messages", stream))
	}
	return strings.Join(texts, "; ")
}
