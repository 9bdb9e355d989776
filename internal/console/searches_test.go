package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operate/searches"
	"github.com/watershipmq/watership/internal/operation/access"
)

// A search is saved from its page, offered to everybody, renamed and deleted, in both stores.
func TestSavedSearches(t *testing.T) {
	eachStore(t, func(t *testing.T, s served) {
		page := s.get(t, "/messages?since=1h&q=headers.tenant%3A+acme&fields=headers.tenant")
		action, form := page.form(t, "Save for everybody")
		form.Set("name", "Messages of acme")
		page = s.post(t, action, form)
		page.want(t, http.StatusOK, "Messages of acme")
		saved := link(t, page, "Messages of acme")
		if address, err := url.Parse(saved); err != nil || address.Query().Get("q") != "headers.tenant: acme" || address.Query().Get("fields") != "headers.tenant" {
			t.Errorf("saved %s", saved)
		}
		s.get(t, saved).want(t, http.StatusOK, "Saved 1")

		page = s.get(t, "/searches")
		page.want(t, http.StatusOK, "Messages of acme", "headers.tenant: acme", "by ")
		action, form = page.form(t, "Rename")
		form.Set("name", "acme")
		s.post(t, action, form).want(t, http.StatusOK, "Renamed to acme.")
		list, err := searches.ListSearches.Call(access.NewContext(t.Context(), access.AsOperator("ann")), s.api, struct{}{})
		if err != nil || len(list.Body.Searches) != 1 || list.Body.Searches[0].Name != "acme" || list.Body.Searches[0].By == "" || list.Body.Searches[0].At.IsZero() {
			t.Errorf("%+v, %v", list.Body, err)
		}
		action, form = s.get(t, "/searches").form(t, "Delete")
		s.post(t, action, form).want(t, http.StatusOK, "The search is deleted.", "No saved searches")
	})
}

// A name is that of one search, and an address is of the console.
func TestSearchesThatAreRefused(t *testing.T) {
	s := newSystem(t)
	save := func(name, address string) document {
		return s.post(t, "/searches", url.Values{"name": {name}, "address": {address}})
	}
	for _, address := range []string{"https://example.com/messages", "//example.com/messages", "/doctor", "javascript:alert(1)", "/messages/../doctor"} {
		save("a", address).want(t, http.StatusBadRequest, "is no page whose search can be saved")
	}
	save(" ", "/messages").want(t, http.StatusBadRequest, "does not fit")
	save("a", "/messages?q=queue%3A+a").want(t, http.StatusOK, "Saved 1")
	save("a", "/messages?q=queue%3A+b").want(t, http.StatusOK, "Saved 1") // replaced
	save("b", "/failures?q=queue%3A+b")
	page := s.get(t, "/searches")
	page.want(t, http.StatusOK, "2 saved", "queue: b")
	page.without(t, "queue: a")
	action, form := page.form(t, "Rename")
	form.Set("name", "b")
	s.post(t, action, form).want(t, http.StatusConflict, "another search is named")
	s.post(t, strings.Replace(action, "/rename", "x/rename", 1), form).want(t, http.StatusNotFound, "no saved search")
}
