package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

const terminalWidth = 110

// openTerminal makes a pseudo-terminal (pty(7)): what is written to one end is
// read at the other.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	var number, unlocked int32
	size := struct{ rows, columns, x, y uint16 }{40, terminalWidth, 0, 0}
	for _, call := range []struct {
		request uintptr
		value   unsafe.Pointer
	}{
		{syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)}, {syscall.TIOCGPTN, unsafe.Pointer(&number)}, {syscall.TIOCSWINSZ, unsafe.Pointer(&size)},
	} {
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), call.request, uintptr(call.value)); code != 0 {
			t.Fatal(code)
		}
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// session is a command in a terminal.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	keys   *os.File
	screen *servertest.Sink
	ended  chan error
}

func onTerminal(t *testing.T, i *servertest.Installation, environ []string, args ...string) *session {
	t.Helper()
	return inTerminal(t, environ, exec.Command(i.Binary, append(args, "--config", i.Config)...))
}

// shell runs a line of a shell.
func inShell(t *testing.T, i *servertest.Installation, line string, args ...string) *session {
	t.Helper()
	return inTerminal(t, nil, exec.Command("bash", append([]string{"-c", line}, args...)...))
}

func inTerminal(t *testing.T, environ []string, cmd *exec.Cmd) *session {
	t.Helper()
	ours, theirs := openTerminal(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.Env = append(append(os.Environ(), "TERM=xterm"), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	s := &session{t, cmd, ours, &servertest.Sink{}, make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := ours.Read(buffer)
			_, _ = s.screen.Write(buffer[:n])
			if err != nil { // EIO when the command has ended
				return
			}
		}
	}()
	go func() {
		err := cmd.Wait()
		<-read
		s.ended <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = ours.Close()
	})
	return s
}

// expect waits for words on the screen.
func (s *session) expect(words string) {
	s.t.Helper()
	if !rabbittest.Poll(rabbittest.Timeout, func() bool { return strings.Contains(s.screen.String(), words) }) {
		s.t.Fatalf("%s: waited in vain for %q:\n%s", strings.Join(s.cmd.Args[1:], " "), words, s.screen)
	}
}

func (s *session) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the command, and returns what was on the screen.
func (s *session) end(code int) string {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(rabbittest.Timeout):
		s.t.Fatalf("%s did not end:\n%s", strings.Join(s.cmd.Args[1:], " "), s.screen)
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("%s: exit code %d, want %d\n%s", strings.Join(s.cmd.Args[1:], " "), got, code, s.screen)
	}
	return strings.ReplaceAll(s.screen.String(), "\r\n", "\n")
}

// withoutColours takes the colours out.
func withoutColours(text string) string {
	return regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, "")
}

// TestTranscript is an operator's night, in a terminal: find what failed, look
// at it, follow what happens, replay it after a second thought.
func TestTranscript(t *testing.T) { servertest.OnEitherInstallation(t, testTranscript) }

func testTranscript(t *testing.T, install servertest.Installer) {
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
	i := install(t, service.URL)
	i.Serve(t)
	long := "order-" + strings.Repeat("4", 60)
	body := servertest.WriteFile(t, "order.json", `{"order": 42, "note": "`+"\x1b"+`]0;evil"}`)
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", "--message-id", long, body)
	i.Eventually(t, "action: poisoned", 1)

	table := onTerminal(t, i, nil, "search", "action: (poisoned or retry_scheduled)").end(exitOK)
	if !strings.Contains(table, string(terminal.Red)+"poisoned"+terminal.ColourEnd) || !strings.Contains(table, string(terminal.Yellow)+"retry_scheduled"+terminal.ColourEnd) {
		t.Errorf("no colours in a terminal: %q", table)
	}
	lines := strings.Split(strings.TrimSpace(withoutColours(table)), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > terminalWidth {
			t.Errorf("a line of %d characters in a terminal of %d: %s", n, terminalWidth, line)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines:\n%s", len(lines), table)
	}
	if plainly := onTerminal(t, i, []string{"NO_COLOR=1"}, "search", "action: poisoned").end(exitOK); strings.Contains(plainly, "\x1b") {
		t.Errorf("colours in spite of NO_COLOR: %q", plainly)
	}
	page := onTerminal(t, i, nil, "show", long).end(exitOK)
	if strings.Contains(page, "\x1b]0;") || !strings.Contains(page, `\x1b]0;evil`) {
		t.Errorf("a body steers the terminal: %q", page)
	}

	following := onTerminal(t, i, nil, "tail", "action: (handled or replayed)", "-n", "2", "--fields", "event.action")

	refused := onTerminal(t, i, nil, "replay", "action: poisoned", "--to-failed-queue")
	refused.expect("[y/N]")
	refused.press("n\n")
	if got := refused.end(exitFailed); !strings.Contains(got, "nothing was sent") {
		t.Errorf("%s", got)
	}
	if posts := service.Got()[long]; len(posts) != 3 {
		t.Errorf("%d posts before the replay", len(posts))
	}
	service.Mend()
	agreed := onTerminal(t, i, nil, "replay", "action: poisoned", "--to-failed-queue")
	agreed.expect("[y/N]")
	agreed.press("y\n")
	if got := agreed.end(exitOK); !strings.Contains(got, "sent 1 of 1") || strings.Contains(got, "0s left") {
		t.Errorf("%s", got)
	}
	following.expect("handled")
	following.expect("replayed")
	following.press("\x03") // Ctrl-C
	following.end(exitOK)
	i.Eventually(t, "action: handled", 1)
	if got := onTerminal(t, i, nil, "failed").end(exitOK); !strings.Contains(got, "nothing found") {
		t.Errorf("after the replay: %s", got)
	}
}

// Long work shows how far it is, how fast, and how long it still takes.
func TestProgressBars(t *testing.T) { played(t, testProgressBars) }

func testProgressBars(t *testing.T, a *playback) {
	body := servertest.WriteFile(t, "order.json", "{}")
	const published = "300/300"
	wantBar(t, onTerminal(t, a.Installation, nil, "publish", "--exchange", a.Exchange, "--key", "order.created", "--count", "300", body).end(exitOK), published)

	a.keep(a.event(schemas.Published, 1), a.event(schemas.Poisoned, 2))
	file := filepath.Join(t.TempDir(), "events.ndjson")
	s := inShell(t, a.Installation, `"$0" export '*' --config "$1" > "$2"`, a.Binary, a.Config, file)
	wantBar(t, s.end(exitOK), "2/2")
	wantBar(t, onTerminal(t, a.Installation, nil, "import", file).end(exitOK), "2/2")
	wantBar(t, inShell(t, a.Installation, `cat "$2" | "$0" import --config "$1"`, a.Binary, a.Config, file).end(exitOK), "2  ")
}

func wantBar(t *testing.T, screen, done string) {
	t.Helper()
	if !regexp.MustCompile(regexp.QuoteMeta(done)+` *[0-9]+/s`).MatchString(screen) || strings.Contains(done, "/") && !strings.Contains(screen, "0s left") {
		t.Errorf("no progress bar at %s:\n%q", done, screen)
	}
}
