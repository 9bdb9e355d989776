package access

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/operation/code"
)

// ReasonHeader is the header of a request that says why it reads bodies or an original, in UTF-8. It is no
// parameter of the URL, which proxies and browsers keep.
const ReasonHeader = "Watership-Reason"

// MaxReason bounds a reason, in characters, since a cookie has it.
const MaxReason = 400

// CleanReason returns a reason on one line, within MaxReason.
func CleanReason(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
	if utf8.RuneCountInString(text) > MaxReason {
		text = string([]rune(text)[:MaxReason])
	}
	return text
}

func reasonIn(r *http.Request) string { return CleanReason(r.Header.Get(ReasonHeader)) }

// GiveReason says why a request reads, as its header may.
func GiveReason(ctx context.Context, reason string) {
	if a, ok := ctx.Value(auditKey{}).(*audit); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reason = CleanReason(reason)
	}
}

// Recording returns a context for what a command reads, for a reason, where reading is recorded.
func Recording(ctx context.Context, to Recorder, reason string) context.Context {
	return context.WithValue(ctx, auditKey{}, &audit{recorder: to, reason: CleanReason(reason)})
}

// MayReadOriginals returns nil if the identity of a request may read the originals of redacted messages, and has
// said why. of names the messages.
func MayReadOriginals(ctx context.Context, of string) error {
	i := FromContext(ctx)
	if !i.May(Viewer) || !i.Originals {
		Describe(ctx, Action{Name: readOriginals, Object: of}) // the answer is recorded
		return &Error{
			Code: code.Forbidden, Problem: i.Name + " may not read originals",
			Remedy: "Ask an administrator for a token with the permission to read originals, or for originals in http.auth.oidc.roles.",
		}
	}
	a, ok := ctx.Value(auditKey{}).(*audit)
	if !ok {
		return &Error{Code: code.Forbidden, Problem: "the request was not authenticated"}
	}
	if reason, _ := a.reasons(); reason == "" {
		return needsReason("originals")
	}
	return nil
}

// RecordOriginals returns nil if the audit event for the reading of originals is stored, by an identity
// that MayReadOriginals. A handler sends no original without it.
func RecordOriginals(ctx context.Context, of string) error {
	if err := MayReadOriginals(ctx, of); err != nil {
		return err
	}
	a := ctx.Value(auditKey{}).(*audit)
	reason, _ := a.reasons()
	if err := a.recordOnce(ctx, Action{Name: readOriginals, Object: of, Reason: reason}); err != nil {
		return &Error{Code: code.BrokerUnavailable, Problem: "the access cannot be recorded, so originals cannot be read: try again", Cause: err}
	}
	return nil
}

const readOriginals = "read originals"

func needsReason(of string) error {
	return &Error{Code: code.NeedsReason, Problem: "reading " + of + " needs a reason, for the record", Remedy: "Send it in the header " + ReasonHeader + "."}
}

// reasons returns why the request reads, and why its browser reads bodies.
func (a *audit) reasons() (reason, kept string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reason, a.kept
}

// bodyReason returns why the request reads bodies: an action that has a reason needs no second one.
func (a *audit) bodyReason() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.reason, CleanReason(a.action.Reason), a.kept)
}

// givenReason is the content of the cookie with the reason for which a person reads bodies in a browser.
type givenReason struct {
	By      string    `json:"by"` // as requestKey has it: another person has other reasons
	Reason  string    `json:"reason"`
	Expires time.Time `json:"expires"`
}

const reasonPurpose = "reason"

// reason returns why an identity reads bodies in the browser of a request; "": no reason was given.
func (s *sessions) reason(r *http.Request, who Identity) string {
	cookie, err := r.Cookie(s.cookieName(reasonPurpose))
	var given givenReason
	if err != nil || s.sealer.open(reasonPurpose, cookie.Value, &given) != nil || given.By != requestKey(who) || !given.Expires.After(time.Now()) {
		return ""
	}
	return given.Reason
}

// giveReason keeps the reason for which a person reads bodies in a browser, as long as a session. Each reading has
// an audit event with it, so that this request has none.
func (s signInHandlers) giveReason(w http.ResponseWriter, r *http.Request) {
	if err := s.keepReason(w, r); err != nil {
		s.guard.refuse(w, r, err)
		return
	}
	page, err := url.Parse(r.Referer()) // of this site, which has the form
	if err != nil {
		page = &url.URL{}
	}
	_ = redirect(w, localPath(page.RequestURI()))
}

func (s signInHandlers) keepReason(w http.ResponseWriter, r *http.Request) error {
	who, err := s.guard.admit(r)
	if err != nil {
		return s.guard.countFailure(clientAddress(r, s.guard.trusted), err)
	}
	if err := s.guard.limitRequests(who); err != nil {
		return err
	}
	reason := CleanReason(r.PostFormValue("reason"))
	if reason == "" {
		return needsReason("bodies")
	}
	return s.guard.sessions.setCookie(w, reasonPurpose, givenReason{requestKey(who), reason, time.Now().Add(sessionLength)}, sessionLength)
}
