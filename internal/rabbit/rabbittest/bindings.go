package rabbittest

import (
	"sync"
	"testing"
)

// CountBindings returns the URL of a proxy, and a function that counts the bindings so far on
// connections that publish and on others.
func (a Address) CountBindings(t testing.TB) (url string, count func() (publishing, others int)) {
	t.Helper()
	type connection struct {
		publishes bool
		bindings  int
	}
	var mu sync.Mutex // guards all
	var all []*connection
	url = a.RewriteSentByEach(t, func() func([]byte) []byte {
		one := &connection{}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, one)
		return func(frame []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case IsMethod(frame, 60, 40):
				one.publishes = true
			case IsMethod(frame, 50, 20), IsMethod(frame, 40, 30):
				one.bindings++
			}
			return frame
		}
	})
	return url, func() (publishing, others int) {
		mu.Lock()
		defer mu.Unlock()
		for _, one := range all {
			if one.publishes {
				publishing += one.bindings
			} else {
				others += one.bindings
			}
		}
		return publishing, others
	}
}
