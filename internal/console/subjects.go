package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/subjects"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
)

const subjectsPath = "/subjects"

// subjectPages has the page that finds what is recorded about a person, and erases it.
type subjectPages struct{ pages }

// namedSubject is the subject of a form. A person is named in the body of a request alone, since addresses are in
// logs and histories.
type namedSubject struct {
	subjects.Subject
	Done *erasedSubject
}

// erasedSubject is the result of the form: the number of keys, the seconds for which other processes keep them, and the
// messages that are left in plain.
type erasedSubject struct{ Keys, CachedFor, Waiting, Parked int }

func (c subjectPages) register() {
	actionpage.Flow[namedSubject, subjects.Erased]{
		Path: subjectsPath, PreviewPath: subjectsPath + "/find", Role: access.Admin,
		Confirmation: frame.Confirmation{Name: "an erasure", Unit: "key", Reason: "Say which request it is, without a name."},
		Read:         c.readSubject, Preview: c.previewErasure, Act: c.eraseSubject, Page: subjectsPage,
	}.Add(c.Frame)
}

// readSubject reads the value of a subject, or the hashes that a preview has shown.
func (c subjectPages) readSubject(r *http.Request, form url.Values) (s namedSubject, isSelected bool, err error) {
	if done, _ := c.DoneBefore(r); done != nil {
		number := func(name string) int {
			n, _ := strconv.Atoi(done.Get(name))
			return n
		}
		s.Done = &erasedSubject{number("keys"), number("cached"), number("waiting"), number("parked")}
	}
	if r.Method == http.MethodPost {
		s.Subject.Subject, s.Hashes = form.Get("subject"), form["hash"]
	}
	return s, s.Subject.Subject != "" || len(s.Hashes) > 0, nil
}

func (c subjectPages) previewErasure(ctx context.Context, s namedSubject) (subjects.Erased, operation.Found, error) {
	found, err := c.erase(ctx, operation.IdempotencyKey{}, s, operation.Bounds{DryRun: true})
	return found, found.Found, err
}

func (c subjectPages) eraseSubject(ctx context.Context, key operation.IdempotencyKey, s namedSubject, shown frame.Confirmed) (frame.Response, error) {
	done, err := c.erase(ctx, key, s, shown.Bounds)
	if err != nil {
		return nil, err
	}
	waiting, parked, result := 0, 0, url.Values{}
	for _, n := range done.Waiting {
		waiting += n
	}
	for _, copies := range done.Parked {
		parked += copies.Messages
	}
	for name, n := range map[string]int{"keys": done.Done, "cached": done.CachedFor, "waiting": waiting, "parked": parked} {
		result.Set(name, strconv.Itoa(n))
	}
	return c.Done(subjectsPath, result), nil
}

func (c subjectPages) erase(ctx context.Context, key operation.IdempotencyKey, s namedSubject, bounds operation.Bounds) (subjects.Erased, error) {
	answer, err := subjects.EraseSubject.Call(ctx, c.api, subjects.EraseInput{IdempotencyKey: key, Body: subjects.Erasure{Subject: s.Subject, Bounds: bounds}})
	return answer.Body, err
}

func subjectsPage(_ context.Context, v actionpage.Shown[namedSubject, subjects.Erased]) (frame.Page, error) {
	return frame.Page{Title: "Erase a person", Section: "/messages", Template: "subjects.html", Data: v, Styles: []string{"message.css"}}, nil
}
