package access

import (
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"
)

// session is the content of the cookie of a browser that has signed in. It has no
// permissions, so that a token that is revoked, or a role that is changed in the
// configuration, changes sessions that exist, too.
type session struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Claim   string    `json:"claim,omitempty"` // the value that a role was granted to
	Token   []byte    `json:"token,omitempty"` // the hash of the token that was entered
	Expires time.Time `json:"expires"`
}

// sessions makes and reads the cookies of sessions.
type sessions struct {
	sealer sealer
	secure bool // the browser uses https

	mu    sync.Mutex           // of ended
	ended map[string]time.Time // sessions that signed out, by id, with their ends
}

const (
	sessionPurpose = "session"
	sessionLength  = 8 * time.Hour
	loginPurpose   = "login"
	loginLength    = 10 * time.Minute
)

// cookieName returns the name of a cookie. Browsers accept __Host- only from this host, with
// https and for all paths, so that no other host of the domain can set it.
func (s *sessions) cookieName(purpose string) string {
	if s.secure {
		return "__Host-watership-" + purpose
	}
	return "watership-" + purpose
}

// setCookie sets a sealed cookie.
func (s *sessions) setCookie(w http.ResponseWriter, purpose string, value any, length time.Duration) error {
	sealed, err := s.sealer.seal(purpose, value)
	if err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(purpose, sealed, int(length.Seconds())))
	return nil
}

func (s *sessions) removeCookie(w http.ResponseWriter, purpose string) {
	http.SetCookie(w, s.cookie(purpose, "", -1))
}

// cookie returns a cookie that no script can read. Lax leaves it out of requests of other
// sites, except links.
func (s *sessions) cookie(purpose, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: s.cookieName(purpose), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	}
}

// start signs a browser in.
func (s *sessions) start(w http.ResponseWriter, begun session, now time.Time) error {
	begun.ID, begun.Expires = rand.Text(), now.Add(sessionLength)
	return s.setCookie(w, sessionPurpose, begun, sessionLength)
}

// read returns the session of a request, if it has one.
func (s *sessions) read(r *http.Request, now time.Time) (session, bool, error) {
	cookie, err := r.Cookie(s.cookieName(sessionPurpose))
	if err != nil {
		return session{}, false, nil
	}
	var found session
	if err := s.sealer.open(sessionPurpose, cookie.Value, &found); err != nil {
		return session{}, true, err
	}
	if !now.Before(found.Expires) || s.hasEnded(found.ID) {
		return session{}, true, errors.New("the session has ended: sign in again")
	}
	return found, true, nil
}

func (s *sessions) hasEnded(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.ended[id]
	return ended
}

// end makes the cookie of a session useless, also for a thief.
func (s *sessions) end(ending session, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, expires := range s.ended {
		if !now.Before(expires) {
			delete(s.ended, id)
		}
	}
	s.ended[ending.ID] = ending.Expires
}
