package tlsfiles

import (
	"crypto/tls"
	"io/fs"
	"os"
	"sync"
	"time"
)

// NewServer returns the TLS configuration of a server. It reads the certificate and the key
// again when the files have changed. While the new ones cannot be read, or do not belong
// together, it keeps the former ones and calls failed.
func NewServer(cert, key File, failed func(error)) (*tls.Config, error) {
	p := &pair{cert: cert, key: key, failed: failed}
	if err := p.read(); err != nil {
		return nil, err
	}
	p.checked = time.Now()
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(time.Now()), nil },
	}, nil
}

// checkInterval is how often handshakes look whether the files have changed.
const checkInterval = time.Second

// pair is a certificate with its key, as it was read last.
type pair struct {
	cert, key File
	failed    func(error)

	mu      sync.Mutex // of the fields below
	parsed  *tls.Certificate
	states  [2]fs.FileInfo
	checked time.Time
}

func (p *pair) current(now time.Time) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.checked) < checkInterval {
		return p.parsed
	}
	p.checked = now
	if p.changed() {
		if err := p.read(); err != nil {
			p.failed(err)
		}
	}
	return p.parsed
}

func (p *pair) changed() bool {
	for i, file := range []File{p.cert, p.key} {
		state, err := os.Stat(file.Path)
		known := p.states[i]
		if err != nil || !os.SameFile(known, state) || known.Size() != state.Size() || !known.ModTime().Equal(state.ModTime()) {
			return true
		}
	}
	return false
}

// read replaces the pair, and leaves it if the files are no pair. It notes the state of
// the files first: a change during the read is found by the next check.
func (p *pair) read() error {
	var states [2]fs.FileInfo
	for i, file := range []File{p.cert, p.key} {
		state, err := os.Stat(file.Path)
		if err != nil {
			_, err = file.read()
			return err
		}
		states[i] = state
	}
	parsed, err := readPair(p.cert, p.key)
	if err != nil {
		return err
	}
	p.parsed, p.states = &parsed, states
	return nil
}
