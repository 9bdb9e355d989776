package access

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSecretsHaveAChecksum(t *testing.T) {
	secret := newSecret()
	if !isSecret(secret) || !strings.HasPrefix(secret, "wst_") || secret == newSecret() {
		t.Errorf("%s", secret)
	}
	for i := range secret {
		for _, c := range "ab" {
			if changed := secret[:i] + string(c) + secret[i+1:]; changed != secret && isSecret(changed) {
				t.Errorf("%s counts for %s", changed, secret)
			}
		}
	}
	for _, text := range []string{"", "wst_", secret[:len(secret)-1], secret + "a", secret + "\n", strings.ToUpper(secret), secret[:20] + "\n" + secret[20:]} {
		if isSecret(text) {
			t.Errorf("%q counts", text)
		}
	}
}

func TestTokenFileKeepsNoSecret(t *testing.T) {
	file := OpenTokenFile(filepath.Join(t.TempDir(), "tokens.json"))
	want := Token{Name: "ci", Role: Operator, Bodies: true, BodyReasons: true, Originals: true, Queues: []string{"orders*"}, Exchanges: []string{""}, Created: time.Now().UTC().Truncate(time.Second), Expires: time.Now().UTC().Add(time.Hour).Truncate(time.Second)}
	secret, err := file.Create(want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file.path)
	if err != nil || strings.Contains(string(text), secret) || strings.Contains(string(text), secret[4:]) {
		t.Errorf("%v: %s", err, text)
	}
	if info, err := os.Stat(file.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	got, err := file.find(secret, time.Now())
	got.Hash = nil
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := file.find(secret, want.Expires); err == nil {
		t.Error("the token does not expire")
	}
	if _, err := file.Create(Token{Name: "ci", Role: Viewer}); err == nil {
		t.Error("two tokens have one name")
	}
	if err := file.Revoke("other"); err == nil {
		t.Error("an unknown token was revoked")
	}
	left, _ := filepath.Glob(filepath.Dir(file.path) + "/*")
	if len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
}

func encode(hash []byte) string { return base64.StdEncoding.EncodeToString(hash) }

func TestTokenFileRefusesToGuess(t *testing.T) {
	secret := newSecret()
	hash := hashSecret(secret)
	write := func(t *testing.T, text string, mode os.FileMode) *TokenFile {
		t.Helper()
		path := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return OpenTokenFile(path)
	}
	good := fmt.Sprintf(`{"version":1,"tokens":[{"name":"a","sha256":%q,"role":"viewer","created":"2026-01-01T00:00:00Z"}]}`, encode(hash[:]))
	if _, err := write(t, good, 0o640).find(secret, time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]*TokenFile{
		"writable by the group":  write(t, good, 0o620),
		"writable by all":        write(t, good, 0o602),
		"no JSON":                write(t, good[:20], 0o600),
		"empty":                  write(t, "", 0o600),
		"a newer version":        write(t, strings.Replace(good, `"version":1`, `"version":2`, 1), 0o600),
		"a limit it cannot know": write(t, strings.Replace(good, `"role"`, `"queue":"orders","role"`, 1), 0o600),
		"an unknown role":        write(t, strings.Replace(good, `viewer`, `root`, 1), 0o600),
		"no role":                write(t, strings.Replace(good, `"role":"viewer",`, ``, 1), 0o600),
		"a short hash":           write(t, strings.Replace(good, encode(hash[:]), encode(hash[:3]), 1), 0o600),
	} {
		if token, err := file.find(secret, time.Now()); err == nil {
			t.Errorf("%s: %+v", name, token)
		}
		if _, err := file.Create(Token{Name: "b", Role: Viewer}); err == nil {
			t.Errorf("%s: a token was added", name)
		}
	}
	for _, name := range []string{"", " a", "a\n", strings.Repeat("a", 101), "\x1b[31m", "\xff"} {
		if _, err := OpenTokenFile(filepath.Join(t.TempDir(), "t")).Create(Token{Name: name, Role: Viewer}); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// Tokens in a file that another user may replace are not valid, and none is added.
func TestTokenFileThatOthersMayReplace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the modes are those of unix")
	}
	for name, test := range map[string]struct {
		folder           os.FileMode
		owner, inFolder  int // of another user than root: only root can make it so
		linked, accepted bool
	}{
		"own":                      {folder: 0o755, accepted: true},
		"all may write":            {folder: 0o777},
		"the group may write":      {folder: 0o775},
		"as in /tmp":               {folder: 0o777 | os.ModeSticky, accepted: true},
		"by a link":                {folder: 0o755, linked: true, accepted: true},
		"by a link, all may write": {folder: 0o777, linked: true},
		"another's file":           {folder: 0o755, owner: 65534},
		"another's folder":         {folder: 0o755, inFolder: 65534},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && test.owner+test.inFolder > 0 {
				t.Skip("only root gives files away")
			}
			folder := t.TempDir()
			if err := os.Chmod(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "tokens.json")
			secret, err := OpenTokenFile(path).Create(Token{Name: "a", Role: Viewer})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chown(path, max(test.owner, os.Geteuid()), -1), os.Chown(folder, max(test.inFolder, os.Geteuid()), -1), os.Chmod(folder, test.folder)); err != nil {
				t.Fatal(err)
			}
			if test.linked {
				link := filepath.Join(t.TempDir(), "link.json")
				if err := errors.Join(os.Chmod(filepath.Dir(link), 0o755), os.Symlink(path, link)); err != nil {
					t.Fatal(err)
				}
				path = link
			}
			if _, err := OpenTokenFile(path).find(secret, time.Now()); (err == nil) != test.accepted {
				t.Errorf("found with error %v", err)
			}
			if _, err := OpenTokenFile(path).Create(Token{Name: "b", Role: Admin}); (err == nil) != test.accepted {
				t.Errorf("created with error %v", err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenTokenFile(path).Create(Token{Name: "first", Role: Admin}); !test.linked && test.owner == 0 && (err == nil) != test.accepted {
				t.Errorf("the first was created with error %v", err)
			}
		})
	}
}

// Commands that change the file at the same time lose no change.
func TestTokenFileChangesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var creating sync.WaitGroup
	for n := range 20 {
		creating.Go(func() {
			if _, err := OpenTokenFile(path).Create(Token{Name: fmt.Sprint(n), Role: Viewer}); err != nil {
				t.Error(err)
			}
		})
	}
	creating.Wait()
	if tokens, err := OpenTokenFile(path).List(); len(tokens) != 20 || err != nil {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
}
