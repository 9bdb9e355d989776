package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// TokenFile is a file with the tokens of the HTTP server. Several processes may read it
// while one changes it: a change replaces the whole file.
type TokenFile struct {
	path string

	mu     sync.Mutex // of the fields below
	state  fs.FileInfo
	byHash map[[sha256.Size]byte]Token
}

// OpenTokenFile returns the file with a path. It need not exist yet.
func OpenTokenFile(path string) *TokenFile { return &TokenFile{path: path} }

// tokenFileVersion is the version of the format. A file of a newer version is an error.
const tokenFileVersion = 1

// maxTokenFile bounds the size of the file that is read.
const maxTokenFile = 4 << 20

type tokenList struct {
	Version int     `json:"version"`
	Tokens  []Token `json:"tokens"`
}

// errNoToken is returned by find for a secret of no token.
var errNoToken = errors.New("the token is unknown or was revoked: watership token list shows those that are valid")

// find returns the token with a secret. It reads the file again if it has changed, so that
// a token is revoked without a restart.
func (f *TokenFile) find(secret string, now time.Time) (Token, error) {
	if !isSecret(secret) {
		return Token{}, errors.New("the token is incomplete or mistyped: its checksum is wrong")
	}
	return f.findHash(hashSecret(secret), now)
}

// findHash is find for the hash of a secret. It returns a token that has expired with an
// error. It looks the hash up in a map: how long that
// takes depends on the hash, and not on the secret.
func (f *TokenFile) findHash(hash [sha256.Size]byte, now time.Time) (Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return Token{}, &tokenFileError{err}
	}
	token, found := f.byHash[hash]
	switch {
	case !found:
		return Token{}, errNoToken
	case token.Expired(now):
		return token, fmt.Errorf("the token %s expired at %s", token.Name, token.Expires.UTC().Format(time.RFC3339))
	}
	return token, nil
}

// tokenFileError is returned if the tokens cannot be read. Then none is valid: a file that
// cannot be read may have revoked any of them.
type tokenFileError struct{ error }

func (e *tokenFileError) Unwrap() error { return e.error }

// refresh reads the file if it is another one than last time.
func (f *TokenFile) refresh() error {
	state, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.state, f.byHash = nil, nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	if f.state != nil && os.SameFile(f.state, state) && f.state.ModTime().Equal(state.ModTime()) && f.state.Size() == state.Size() && f.state.Mode() == state.Mode() {
		return nil
	}
	f.state = nil
	tokens, err := f.read()
	if err != nil {
		return err
	}
	byHash := make(map[[sha256.Size]byte]Token, len(tokens))
	for _, token := range tokens {
		byHash[[sha256.Size]byte(token.Hash)] = token
	}
	f.state, f.byHash = state, byHash
	return nil
}

// read reads the tokens; none if there is no file.
func (f *TokenFile) read() ([]Token, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	defer file.Close()
	state, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	if err := f.checkOwner(state); err != nil {
		return nil, fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxTokenFile))
	if err != nil {
		return nil, fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	list, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("http.auth.tokens_file: %s: %w", f.path, err)
	}
	return list, nil
}

// checkOwner refuses a file that users other than root and the one of this process may
// change or replace, and so give themselves any role.
func (f *TokenFile) checkOwner(file fs.FileInfo) error {
	if runtime.GOOS == "windows" { // which has neither owners nor modes of this kind
		return nil
	}
	if ownedByAnother(file) {
		return fmt.Errorf("%s belongs to another user, who may give themselves any role: run the command as the user of the server, or chown the file to the user that reads it", f.path)
	}
	if mode := file.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("other users may write to %s (%s), and so give themselves any role: chmod 600 it", f.path, mode)
	}
	return f.checkFolder()
}

// checkFolder refuses a folder in which other users may replace the file. In one with the
// sticky bit, as /tmp, only the owner of a file may. If the file is a link, as in a volume
// of Kubernetes, the folder to which it leads counts as well.
func (f *TokenFile) checkFolder() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folders := []string{filepath.Dir(f.path)}
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		folders = append(folders, filepath.Dir(target))
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		switch {
		case err != nil:
			return err
		case ownedByAnother(info):
			return fmt.Errorf("the folder %s belongs to another user, who may replace %s, and so give themselves any role: use a folder of root or of the user of this process", folder, filepath.Base(f.path))
		case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
			return fmt.Errorf("other users may replace files in the folder %s (%s), and so give themselves any role: chmod go-w it", folder, info.Mode().Perm())
		}
	}
	return nil
}

func parseTokens(text []byte) ([]Token, error) {
	var list tokenList
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelled limit is no limit
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("expected what `watership token create` writes: %w", err)
	}
	if list.Version != tokenFileVersion {
		return nil, fmt.Errorf("it has version %d, this Watership knows %d", list.Version, tokenFileVersion)
	}
	for _, token := range list.Tokens {
		if len(token.Hash) != sha256.Size || token.Role == 0 {
			return nil, fmt.Errorf("token %q: expected a role and a SHA-256 hash", token.Name)
		}
	}
	return list.Tokens, nil
}

// List returns the tokens, also those that have expired, in the order of their creation.
func (f *TokenFile) List() ([]Token, error) { return f.read() }

// Create adds a token with a new secret, and returns the secret, which is not kept.
func (f *TokenFile) Create(token Token) (secret string, err error) {
	if err := checkToken(token); err != nil {
		return "", err
	}
	secret = newSecret()
	hash := hashSecret(secret)
	token.Hash = hash[:]
	return secret, f.change(func(tokens []Token) ([]Token, error) {
		if at := indexToken(tokens, token.Name); at >= 0 {
			return nil, fmt.Errorf("a token with the name %s exists: choose another name, or revoke it first", token.Name)
		}
		return append(tokens, token), nil
	})
}

// Revoke removes a token.
func (f *TokenFile) Revoke(name string) error {
	return f.change(func(tokens []Token) ([]Token, error) {
		at := indexToken(tokens, name)
		if at < 0 {
			return nil, fmt.Errorf("no token has the name %s", name)
		}
		return slices.Delete(tokens, at, at+1), nil
	})
}

func indexToken(tokens []Token, name string) int {
	return slices.IndexFunc(tokens, func(t Token) bool { return t.Name == name })
}

const maxTokenName = 100

func checkToken(t Token) error {
	printable := !strings.ContainsFunc(t.Name, func(r rune) bool { return !unicode.IsPrint(r) })
	switch {
	case t.Name == "" || len(t.Name) > maxTokenName || !utf8.ValidString(t.Name) || !printable || strings.TrimSpace(t.Name) != t.Name:
		return fmt.Errorf("expected a name of 1 to %d printable bytes", maxTokenName)
	case t.Role == 0:
		return errors.New("expected a role")
	case slices.Contains(t.Queues, ""):
		return errors.New("expected the names or patterns of queues, not an empty one")
	}
	return nil
}

// change replaces the file, while it is locked against other processes that change it.
func (f *TokenFile) change(edit func([]Token) ([]Token, error)) error {
	if err := f.checkFolder(); err != nil {
		return fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	lock := f.path + ".lock"
	if err := createLock(lock); err != nil {
		return fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	defer os.Remove(lock)
	tokens, err := f.read()
	if err != nil {
		return err
	}
	if tokens, err = edit(tokens); err != nil {
		return err
	}
	text, err := json.MarshalIndent(tokenList{tokenFileVersion, tokens}, "", "  ")
	if err != nil {
		return fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	if err := replaceFile(f.path, append(text, '\n')); err != nil {
		return fmt.Errorf("http.auth.tokens_file: %w", err)
	}
	return nil
}

const (
	lockTimeout  = 2 * time.Second
	lockInterval = 10 * time.Millisecond
)

// createLock creates a file that must not exist, and waits while another command has it.
func createLock(path string) error {
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockInterval) {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return file.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another command changes it: if none does, remove %s", path)
		}
	}
}

// replaceFile writes a file that only its owner may read. A reader finds the old content or
// the new one, also after a power failure.
func replaceFile(path string, content []byte) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
