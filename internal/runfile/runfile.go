// Package runfile lets commands find the Watership whose broker and store are
// embedded, by its data folder: a lock says that it runs, and a file where.
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

// Running says where the embedded parts of a running process are.
type Running struct {
	PID        int    `json:"pid"`
	Instance   string `json:"instance"`   // of the broker, in its server-properties
	AMQP       string `json:"amqp"`       // a URL with login
	Management string `json:"management"` // a URL with login
	Store      string `json:"store"`      // sqlite:PATH; "": not in a file, so store.url has to say where
}

const (
	fileName = "running.json"
	lockName = "lock"
)

// ErrNotRunning is of a folder in which nothing runs.
var ErrNotRunning = errors.New("nothing runs here")

// Read says what runs on a folder. Its error is ErrNotRunning where nothing does,
// fs.ErrNotExist where there is no such folder, and an *UnsafeError where somebody
// else could have written it.
func Read(folder string) (Running, error) {
	if err := Check(folder); err != nil {
		return Running{}, err
	}
	held, err := isLocked(filepath.Join(folder, lockName))
	if err != nil {
		return Running{}, fmt.Errorf("looking for what runs in %s: %w", folder, err)
	}
	if !held {
		return Running{}, ErrNotRunning
	}
	text, err := readFile(filepath.Join(folder, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return Running{}, fmt.Errorf("what runs in %s does not say yet where: try again", folder)
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

const longest = 64 << 10 // bytes of the file

func readFile(path string) ([]byte, error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, longest))
}

// parse takes only what embedded parts can be: servers on this machine, and a file.
func parse(text []byte) (Running, error) {
	var r Running
	if err := json.Unmarshal(text, &r); err != nil {
		return Running{}, fmt.Errorf("not readable: %w", err)
	}
	if r.Instance == "" || strings.ContainsFunc(r.Instance, notPrintable) {
		return Running{}, errors.New("it names no instance")
	}
	if err := onThisMachine(r.AMQP, "amqp"); err != nil {
		return Running{}, fmt.Errorf("amqp: %w", err)
	}
	if err := onThisMachine(r.Management, "http"); err != nil {
		return Running{}, fmt.Errorf("management: %w", err)
	}
	path, isFile := strings.CutPrefix(r.Store, "sqlite:")
	if r.Store != "" && (!isFile || !filepath.IsAbs(path) || strings.ContainsFunc(path, unicode.IsControl)) {
		return Running{}, errors.New("store: expected sqlite: and the path of a file")
	}
	return r, nil
}

func notPrintable(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }

// onThisMachine checks a URL without showing it, as it has a password.
func onThisMachine(text, scheme string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != scheme || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("expected %s://login:password@host:port", scheme)
	}
	ip := net.ParseIP(u.Hostname())
	if ip != nil && (ip.IsLoopback() || isOwn(ip)) {
		return nil
	}
	return fmt.Errorf("host %q is not this machine", u.Hostname())
}

// isOwn says whether an interface of this machine has the address.
func isOwn(ip net.IP) bool {
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
