package broker

import "strings"

// topicMatcher: patterns of words between dots, in which * stands for one word and
// # for any number of them (§3.1.3.3). Patterns share a tree of their words.
type topicMatcher struct{ root topicNode }

type topicNode struct {
	next map[string]*topicNode // by word, with * and # among them
	here []*binding            // whose pattern ends here
}

// topicWords: an empty key has no words, while a lone dot parts two empty ones.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func (t *topicMatcher) add(b *binding) {
	node := &t.root
	for _, word := range topicWords(b.key) {
		if node.next == nil {
			node.next = map[string]*topicNode{}
		}
		if node.next[word] == nil {
			node.next[word] = &topicNode{}
		}
		node = node.next[word]
	}
	node.here = append(node.here, b)
}

func (t *topicMatcher) remove(b *binding) {
	t.root.remove(topicWords(b.key), b)
}

// remove says whether the node is of no more use.
func (n *topicNode) remove(words []string, b *binding) bool {
	if len(words) == 0 {
		n.here = without(n.here, b)
	} else if next := n.next[words[0]]; next != nil && next.remove(words[1:], b) {
		delete(n.next, words[0])
	}
	return len(n.here) == 0 && len(n.next) == 0
}

func (t *topicMatcher) match(key string, _ *message, visit func(*binding)) {
	t.root.match(key, key == "", visit)
}

// match visits what matches the words of rest. Ended says that none are left, since
// an empty rest can also be one empty word. A binding may be visited more than once.
func (n *topicNode) match(rest string, ended bool, visit func(*binding)) {
	if hash := n.next["#"]; hash != nil {
		hash.matchAnyNumber(rest, ended, visit)
	}
	if ended {
		for _, b := range n.here {
			visit(b)
		}
		return
	}
	word, after, more := strings.Cut(rest, ".")
	if next := n.next[word]; next != nil {
		next.match(after, !more, visit)
	}
	if star := n.next["*"]; star != nil {
		star.match(after, !more, visit)
	}
}

// matchAnyNumber goes on behind a #, which took none of the words, one, or more.
func (n *topicNode) matchAnyNumber(rest string, ended bool, visit func(*binding)) {
	for {
		n.match(rest, ended, visit)
		if ended {
			return
		}
		var more bool
		_, rest, more = strings.Cut(rest, ".")
		ended = !more
	}
}
