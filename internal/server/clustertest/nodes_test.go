package clustertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// node is the name of a node, such as rabbitmq1, which is the name of its host as well.
type node string

// The nodes of scripts/cluster.
func brokers() []node { return []node{"rabbitmq1", "rabbitmq2", "rabbitmq3"} }
func stores() []node  { return []node{"elasticsearch1", "elasticsearch2", "elasticsearch3"} }
func serves() []node  { return []node{"serve1", "serve2", "serve3"} }

// laboratory starts and harms nodes. This process runs in the namespaces of scripts/cluster.
type laboratory struct {
	dir    string // of its data and logs
	script string // scripts/cluster
}

// start starts nodes, and waits until they answer.
func (l laboratory) start(ctx context.Context, nodes ...node) error {
	return each(nodes, func(n node) error {
		out, err := exec.CommandContext(ctx, l.script, "start", string(n)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("starting %s: %w: %s", n, err, out)
		}
		return nil
	})
}

// stop ends a node as an operator does, and waits for its end.
func (l laboratory) stop(ctx context.Context, n node) error {
	return l.end(ctx, n, syscall.SIGTERM)
}

// kill ends nodes, as a loss of power does.
func (l laboratory) kill(ctx context.Context, nodes ...node) error {
	return each(nodes, func(n node) error { return l.end(ctx, n, syscall.SIGKILL) })
}

// end sends a signal to the first process of a node, with which all its others end.
func (l laboratory) end(ctx context.Context, n node, signal syscall.Signal) error {
	pid, err := l.first(n)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("%s of %s: %w", signal, n, err)
	}
	for ctx.Err() == nil {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			return nil
		}
		_ = backoff.Sleep(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("%s of %s: %w", signal, n, ctx.Err())
}

// pause stops all processes of a node. They keep their connections, whose other ends notice nothing.
func (l laboratory) pause(n node) error { return l.signal(n, syscall.SIGSTOP) }

// resume lets the processes of a paused node go on.
func (l laboratory) resume(n node) error { return l.signal(n, syscall.SIGCONT) }

// signal sends a signal to all processes of a node: those that have its namespace of processes.
func (l laboratory) signal(n node, signal syscall.Signal) error {
	first, err := l.first(n)
	if err != nil {
		return err
	}
	namespace := func(pid int) string {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return name
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || namespace(pid) != namespace(first) {
			continue
		}
		if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("%s of %s: %w", signal, n, err)
		}
	}
	return nil
}

// first returns the id of the first process of a node.
func (l laboratory) first(n node) (int, error) {
	recorded, err := os.ReadFile(filepath.Join(l.dir, string(n)+".pid"))
	if err != nil {
		return 0, fmt.Errorf("%s has not been started: %w", n, err)
	}
	text, _, _ := strings.Cut(string(recorded), " ")
	return strconv.Atoi(text)
}

// direction is in which direction packets of a node are lost.
type direction int

const (
	both     direction = iota
	inwards            // the node gets nothing, and others get what it sends
	outwards           // others get nothing of the node
)

// cut loses all packets between a node and others, without an answer.
func (l laboratory) cut(n node, from []node, which direction) error {
	for _, other := range from {
		if which != outwards {
			if err := l.filter(n, "-A", "INPUT", "-s", string(other), "-j", "DROP"); err != nil {
				return err
			}
		}
		if which != inwards {
			if err := l.filter(n, "-A", "OUTPUT", "-d", string(other), "-j", "DROP"); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal ends all cuts of a node.
func (l laboratory) heal(n node) error { return l.filter(n, "-F") }

func (l laboratory) filter(n node, arguments ...string) error {
	command := append([]string{"--net=/run/netns/" + string(n), "iptables"}, arguments...)
	if out, err := exec.Command("nsenter", command...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables of %s: %w: %s", n, err, out)
	}
	return nil
}

// each calls do for all nodes at the same time.
func each(nodes []node, do func(node) error) error {
	failed := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { failed <- do(n) }()
	}
	var first error
	for range nodes {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// without returns the other nodes.
func without(nodes []node, left node) (others []node) {
	for _, n := range nodes {
		if n != left {
			others = append(others, n)
		}
	}
	return others
}
