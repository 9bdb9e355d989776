package searches_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/operate/searches"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

func newService(t *testing.T) searches.Service {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	return searches.Service{System: sys}
}

func wantStatus(t *testing.T, err error, status int) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != status {
		t.Errorf("%v, want the status %d", err, status)
	}
}

func names(t *testing.T, s searches.Service) string {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, search := range list {
		names = append(names, search.Name+" by "+search.By+": "+search.Query)
	}
	return fmt.Sprint(names)
}

func TestSearches(t *testing.T) {
	s := newService(t)
	saved, err := s.Save(t.Context(), " b ", "/messages?q=queue%3A+b&fields=headers.tenant", "ann")
	if err != nil || saved.At.IsZero() || saved.Address != "/messages?q=queue%3A+b&fields=headers.tenant" {
		t.Fatalf("%+v, %v", saved, err)
	}
	if _, err := s.Save(t.Context(), "A", "/failures", "ben"); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); got != "[A by ben:  b by ann: queue: b]" {
		t.Errorf("got %s", got)
	}
	if again, err := s.Save(t.Context(), "b", "/messages?q=queue%3A+c", "ben"); err != nil || again.ID != saved.ID {
		t.Errorf("saved again as %+v, %v", again, err)
	}
	_, err = s.Rename(t.Context(), saved.ID, "A", "ann")
	wantStatus(t, err, http.StatusConflict)
	if renamed, err := s.Rename(t.Context(), saved.ID, "c", "ann"); err != nil || renamed.Name != "c" || renamed.By != "ann" {
		t.Errorf("renamed to %+v, %v", renamed, err)
	}
	if got := names(t, s); got != "[A by ben:  c by ann: queue: c]" {
		t.Errorf("got %s", got)
	}
	if err := s.Delete(t.Context(), saved.ID); err != nil {
		t.Error(err)
	}
	wantStatus(t, s.Delete(t.Context(), saved.ID), http.StatusNotFound)
	_, err = s.Rename(t.Context(), saved.ID, "d", "ann")
	wantStatus(t, err, http.StatusNotFound)
	if got := names(t, s); got != "[A by ben: ]" {
		t.Errorf("got %s", got)
	}
}

// Of changes at the same time, each is made.
func TestChangesAtTheSameTime(t *testing.T) {
	s := newService(t)
	saved, err := s.Save(t.Context(), "a", "/messages", "ann")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			if _, err := s.Rename(t.Context(), saved.ID, fmt.Sprint("a", n), "ann"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A search that is deleted while it is renamed is deleted: half of it does not come back.
func TestDeletedWhileItIsRenamed(t *testing.T) {
	s := newService(t)
	for range 100 {
		saved, err := s.Save(t.Context(), "a", "/messages", "ann")
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { _, _ = s.Rename(t.Context(), saved.ID, "b", "ben") }) // fails if the other is faster
		both.Go(func() {
			if err := s.Delete(t.Context(), saved.ID); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got := names(t, s); got != "[]" {
			t.Fatalf("left are %s", got)
		}
	}
}
