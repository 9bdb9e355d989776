package adoptions

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

func newRecords(t *testing.T) records {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	return records{sys}
}

func (r records) keep(t *testing.T, a Adoption) string {
	t.Helper()
	if a.Source == "" {
		a.Source = "test"
	}
	version, err := r.create(t.Context(), a)
	must(t, err)
	return version
}

func TestAnIDIsUsedOnce(t *testing.T) {
	r := newRecords(t)
	r.keep(t, Adoption{ID: "a"})
	if _, err := r.create(t.Context(), Adoption{ID: "a", Source: "test"}); err == nil || err.Error() != "there is an adoption a already" {
		t.Errorf("%v", err)
	}
}

func TestOfTwoSavesOneCounts(t *testing.T) {
	r := newRecords(t)
	version := r.keep(t, Adoption{ID: "a", State: Running})
	next, err := r.save(t.Context(), Adoption{ID: "a", Source: "test", State: Done}, version)
	if err != nil || next == "" || next == version {
		t.Fatalf("%q, %v", next, err)
	}
	if again, err := r.save(t.Context(), Adoption{ID: "a", Source: "test", State: Failed}, version); again != "" || err != nil {
		t.Errorf("%q, %v", again, err)
	}
	if a, _, err := r.read(t.Context(), "a"); err != nil || a.State != Done {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAdoptionsOfAnotherSystemAreInvisible(t *testing.T) {
	r := newRecords(t)
	r.keep(t, Adoption{ID: "a", Source: "another"})
	_, _, err := r.read(t.Context(), "a")
	var missing *problem.Problem
	if !errors.As(err, &missing) || missing.GetStatus() != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	if list, err := r.list(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAdoptionsOfLaterVersionsAreLeftOut(t *testing.T) {
	r := newRecords(t)
	r.keep(t, Adoption{ID: "a"})
	store, err := r.app.Store(t.Context())
	must(t, err)
	_, err = store.CreateRecord(t.Context(), recordKind, "b", []byte(`["another form"]`))
	must(t, err)
	if list, err := r.list(t.Context()); err != nil || len(list) != 1 || list[0].ID != "a" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAnAdoptionThatIsNotSavedWasInterrupted(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		adoption Adoption
		want     State
	}{
		"saved just now":  {Adoption{State: Running, Updated: now.Add(-staleAfter)}, Running},
		"not saved since": {Adoption{State: Running, Updated: now.Add(-staleAfter - time.Second)}, Interrupted},
		"ended long ago":  {Adoption{State: Done, Updated: now.Add(-time.Hour)}, Done},
	} {
		if got := test.adoption.asOf(now); got.State != test.want || (got.Problem != "") != (test.want == Interrupted) || (got.ProblemCode == ProcessKilled) != (test.want == Interrupted) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnAdoptionEndsOnce(t *testing.T) {
	var a Adoption
	a.end(Failed, ByError, "no answer")
	if a.State != Failed || a.ProblemCode != ByError || a.Problem != "no answer" || a.Ended == nil || time.Since(*a.Ended) > time.Minute {
		t.Errorf("%+v", a)
	}
}

func TestTheOldestAdoptionsAreDeleted(t *testing.T) {
	r := newRecords(t)
	for n := range maxRecords + 3 {
		r.keep(t, Adoption{ID: fmt.Sprintf("%03d", n), State: Done})
	}
	must(t, r.deleteOld(t.Context()))
	list, err := r.list(t.Context())
	if err != nil || len(list) != maxRecords {
		t.Errorf("%d are left, %v", len(list), err)
	}
	for _, a := range list {
		if a.ID < "003" {
			t.Errorf("%s is left", a.ID)
		}
	}
}

func TestAnAdoptionThatRunsIsNotDeleted(t *testing.T) {
	r := newRecords(t)
	r.keep(t, Adoption{ID: "000", State: Running, Updated: time.Now()})
	for n := range maxRecords {
		r.keep(t, Adoption{ID: fmt.Sprintf("%03d", n+1), State: Done})
	}
	must(t, r.deleteOld(t.Context()))
	if _, _, err := r.read(t.Context(), "000"); err != nil {
		t.Error(err)
	}
}
