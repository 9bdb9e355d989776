package cli

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// listen is the http address that dev prints.
func (d *development) listen() string {
	return regexp.MustCompile(`http://([^/\s]+)`).FindStringSubmatch(d.out.String())[1]
}

// ask returns the response of dev on its http address.
func (d *development) ask(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + d.listen() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// In a terminal a line of figures is drawn again and again, below what dev says.
func TestDevelopmentInATerminal(t *testing.T) {
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	i := &servertest.Installation{Binary: path, Config: servertest.WriteFile(t, "watership.yaml", "data: "+t.TempDir())}
	s := onTerminal(t, i, []string{"NO_COLOR=1"}, "dev", "--amqp-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--rate", "30")
	s.expect("(keeps traffic for 1d, failures for 1d)")
	s.expect("Its payment provider fails in a moment")
	servertest.Until(t, "figures", func() bool { return strings.Count(s.screen.String(), "\r\x1b[K") > 3 })
	s.press("\x03")
	screen := s.end(exitOK)
	figures := regexp.MustCompile(`\r\x1b\[K(\d+ published, \d+ handled[^\r\n]*)`).FindAllStringSubmatch(screen, -1)
	if len(figures) < 2 || figures[0][1] == figures[len(figures)-1][1] {
		t.Errorf("the figures stand still: %q", figures)
	}
	for _, line := range figures {
		if !regexp.MustCompile(`, store \d+ MB(\^C)?$`).MatchString(line[1]) {
			t.Errorf("no size of the store: %q", line[1])
		}
		if utf8.RuneCountInString(line[1]) >= terminalWidth {
			t.Errorf("a line of figures that is as wide as the terminal: %q", line[1])
		}
	}
	if last := figures[len(figures)-1][0]; !regexp.MustCompile(regexp.QuoteMeta(last) + `(\^C)?\r\x1b\[KEnding when [^\r\n]*\n(lost with the in-memory broker[^\r\n]*\n)?$`).MatchString(screen) {
		t.Errorf("the line of figures stays: %q", servertest.Tail(screen, 100))
	}
}

// That a disk is full is said, in one line, dev is not ready meanwhile, and no
// matter how long it lasts it can be ended, and without waiting for the disk.
func TestDevelopmentOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can make a small disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := developIn(t, dir, nil, "--rate", "300")
	d.says(t, "disk is full")
	servertest.Until(t, "dev not to be ready", func() bool { return strings.Contains(d.ask(t, "/readyz"), "disk is full") })
	report, err := d.sh(d.binary + " doctor --http-listen " + d.listen())
	if err == nil || !strings.Contains(columnsOf(report), "error serve is not ready: store: ") || !strings.Contains(report, "disk is full") {
		t.Errorf("doctor does not see the full disk: %v\n%s", err, report)
	}
	if got := d.ask(t, "/healthz"); got != "ok\n" {
		t.Errorf("a new process would not help, and it is asked for: %s", got)
	}
	if err := d.signal(t, syscall.SIGINT); err != nil {
		t.Errorf("dev ended with %v", err)
	}
	for line := range strings.Lines(d.out.String()) {
		if strings.Contains(line, "disk is full") && !strings.Contains(line, "store.db") {
			t.Errorf("%q does not say which file", line)
		}
	}
	if n := strings.Count(d.out.String(), "disk is full"); n > 5 {
		t.Errorf("it is said %d times", n)
	}
}
