package broker

import (
	"slices"
	"strings"
)

// topicMatcher: patterns of words between dots, in which * stands for one word and
// # for any number of them (§3.1.3.3). Patterns share a tree of their words.
//
// Matching goes through a key's words and keeps the nodes that the words so far
// lead to, each once: its work is bounded by the words times the nodes, however
// many # there are.
type topicMatcher struct {
	root    topicNode
	step    uint64       // numbers the steps of all matchings
	reached []*topicNode // by the words so far
	former  []*topicNode // by the words before the last one
}

type topicNode struct {
	next map[string]*topicNode // by word, with * and # among them
	here bindingList           // whose pattern ends here
	hash bool                  // it is the node of a #
	step uint64                // in which it was reached last
}

// topicWords: an empty key has no words, while a lone dot parts two empty ones.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// patternWords are the words of a pattern. A # after another changes nothing.
func patternWords(pattern string) []string {
	words := topicWords(pattern)
	return slices.CompactFunc(words, func(a, b string) bool { return a == "#" && b == "#" })
}

func (t *topicMatcher) add(b *binding) {
	node := &t.root
	for _, word := range patternWords(b.key) {
		if node.next == nil {
			node.next = map[string]*topicNode{}
		}
		if node.next[word] == nil {
			node.next[word] = &topicNode{hash: word == "#"}
		}
		node = node.next[word]
	}
	node.here.add(b)
}

func (t *topicMatcher) remove(b *binding) {
	t.root.remove(patternWords(b.key), b)
}

// remove says whether the node is of no more use.
func (n *topicNode) remove(words []string, b *binding) bool {
	if len(words) == 0 {
		n.here.remove(b)
	} else if n.next[words[0]].remove(words[1:], b) {
		delete(n.next, words[0])
	}
	return len(n.here) == 0 && len(n.next) == 0
}

func (t *topicMatcher) match(key string, _ *message, visit func(*binding)) {
	t.reached = t.reached[:0]
	t.step++
	t.reach(&t.root)
	if key != "" {
		for word := range strings.SplitSeq(key, ".") {
			t.follow(word)
		}
	}
	for _, n := range t.reached {
		for _, b := range n.here {
			visit(b)
		}
	}
}

// follow goes on by one word from the nodes that were reached.
func (t *topicMatcher) follow(word string) {
	t.former, t.reached = t.reached, t.former[:0]
	t.step++
	for _, n := range t.former {
		if n.hash {
			t.reach(n)
		}
		t.reach(n.next[word])
		t.reach(n.next["*"])
	}
}

// reach adds a node, and the # after it, which may stand for no word.
func (t *topicMatcher) reach(n *topicNode) {
	if n == nil || n.step == t.step {
		return
	}
	n.step = t.step
	t.reached = append(t.reached, n)
	t.reach(n.next["#"])
}
