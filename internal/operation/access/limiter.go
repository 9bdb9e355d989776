package access

import (
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiters holds a rate limiter for each key, such as an address.
type limiters struct {
	rate  rate.Limit
	burst int

	mu    sync.Mutex // of byKey
	byKey map[string]*rate.Limiter
}

func newLimiters(r rate.Limit, burst int) *limiters {
	return &limiters{rate: r, burst: burst, byKey: map[string]*rate.Limiter{}}
}

// maxLimiters bounds the memory that many addresses take.
const maxLimiters = 10_000

// wait returns zero if one more event of a key is within the limit, and counts it.
// Otherwise it returns how long to wait.
func (l *limiters) wait(key string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, found := l.byKey[key]
	if !found {
		l.makeRoom(now)
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.byKey[key] = limiter
	}
	if limiter.AllowN(now, 1) {
		return 0
	}
	return l.untilNext(limiter, now)
}

// peek is wait without counting an event.
func (l *limiters) peek(key string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, found := l.byKey[key]
	if !found || limiter.TokensAt(now) >= 1 {
		return 0
	}
	return l.untilNext(limiter, now)
}

func (l *limiters) untilNext(limiter *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - limiter.TokensAt(now)
	return time.Duration(missing / float64(l.rate) * float64(time.Second))
}

// makeRoom forgets keys that are at rest, and any others if that is not enough.
func (l *limiters) makeRoom(now time.Time) {
	if len(l.byKey) < maxLimiters {
		return
	}
	for key, limiter := range l.byKey {
		if limiter.TokensAt(now) >= float64(l.burst) {
			delete(l.byKey, key)
		}
	}
	for key := range l.byKey {
		if len(l.byKey) < maxLimiters {
			return
		}
		delete(l.byKey, key)
	}
}

// retryAfter returns the value of Retry-After.
func retryAfter(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}

// addressKey returns the key of an address. One client has all the addresses of a /64.
func addressKey(a netip.Addr) string {
	if a.Is6() && !a.Is4In6() {
		if prefix, err := a.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return a.Unmap().String()
}

// concurrency bounds the requests of a key, and of all keys, that run at a time.
type concurrency struct {
	each, all int

	mu      sync.Mutex // of the fields below
	running map[string]int
	total   int
}

// start reports whether one more request may run; then end must follow.
func (c *concurrency) start(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[key] >= c.each || c.total >= c.all {
		return false
	}
	c.running[key]++
	c.total++
	return true
}

func (c *concurrency) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.running[key]--; c.running[key] == 0 {
		delete(c.running, key)
	}
}
