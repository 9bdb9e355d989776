// Package runfile finds the process with the embedded broker and store by its data
// folder: a locked file means that it runs, and another file has its addresses.
package runfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// Running has the addresses of a process with the embedded broker.
type Running struct {
	PID        int    `json:"pid"`
	Instance   string `json:"instance"`   // of the broker, in its server-properties
	AMQP       string `json:"amqp"`       // a URL with login
	Management string `json:"management"` // a URL with login
	Store      string `json:"store"`      // sqlite:PATH; "": not in a file, so commands need store.url
	Config     string `json:"config"`     // absolute path of its configuration file; "": it has none
}

const (
	fileName = "running.json"
	lockName = "lock"
)

// StoreFile returns the path of dev's store in a data folder.
func StoreFile(data string) string { return filepath.Join(data, "store.db") }

// ErrNotRunning is returned for a folder that no process has locked.
var ErrNotRunning = errors.New("nothing runs here")

// Read returns the addresses of the process that has locked a folder. Its error is
// ErrNotRunning if none exists, fs.ErrNotExist if there is no such folder, and an
// *UnsafeError if another user may have written it.
func Read(folder string) (Running, error) {
	if err := CheckFolder(folder); err != nil {
		return Running{}, err
	}
	locked, err := isLocked(filepath.Join(folder, lockName))
	if err != nil {
		return Running{}, fmt.Errorf("reading the lock of the data folder %s: %w", folder, err)
	}
	if !locked {
		return Running{}, ErrNotRunning
	}
	text, err := readFile(filepath.Join(folder, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return Running{}, fmt.Errorf("the process that runs in %s has not announced its addresses yet: try again", folder)
	}
	if err != nil {
		return Running{}, err
	}
	r, err := parse(text)
	if err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(folder, fileName), err)
	}
	return r, nil
}

const maxBytes = 64 << 10 // of the file

func readFile(path string) ([]byte, error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxBytes))
}

// parse accepts servers on this machine and an SQLite file, and nothing else.
func parse(text []byte) (Running, error) {
	var r Running
	if err := json.Unmarshal(text, &r); err != nil {
		return Running{}, fmt.Errorf("not readable: %w", err)
	}
	if r.Instance == "" || strings.ContainsFunc(r.Instance, isNotPrintable) {
		return Running{}, errors.New("it names no instance")
	}
	if err := checkLocal(r.AMQP, "amqp"); err != nil {
		return Running{}, fmt.Errorf("amqp: %w", err)
	}
	if err := checkLocal(r.Management, "http"); err != nil {
		return Running{}, fmt.Errorf("management: %w", err)
	}
	path, isFile := strings.CutPrefix(r.Store, "sqlite:")
	if r.Store != "" && (!isFile || !filepath.IsAbs(path) || strings.ContainsFunc(path, unicode.IsControl)) {
		return Running{}, errors.New("store: expected sqlite: and the path of a file")
	}
	if r.Config != "" && (!filepath.IsAbs(r.Config) || strings.ContainsFunc(r.Config, unicode.IsControl)) {
		return Running{}, errors.New("config: expected the path of a file")
	}
	return r, nil
}

func isNotPrintable(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }

// checkLocal checks a URL, and does not show it, since it has a password.
func checkLocal(text, scheme string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != scheme || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("expected %s://login:password@host:port", scheme)
	}
	ip := net.ParseIP(u.Hostname())
	if ip != nil && (ip.IsLoopback() || isLocalAddress(ip)) {
		return nil
	}
	return fmt.Errorf("host %q is not this machine", u.Hostname())
}

// isLocalAddress reports whether an interface of this machine has the address.
func isLocalAddress(ip net.IP) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range addresses {
		if network, is := address.(*net.IPNet); is && network.IP.Equal(ip) {
			return true
		}
	}
	return false
}
