package broker

import (
	"slices"
	"strings"
)

// topicMatcher matches patterns of words between dots, in which * stands for one word
// and # for any number of words (§3.1.3.3). Patterns share a tree of their words.
// Matching a word replaces a set of nodes by the set of their successors, so that the
// work is at most the number of words times the number of nodes, whatever the number of
// #.
type topicMatcher struct {
	root    topicNode
	step    uint64       // number of the step, in all matchings
	reached []*topicNode // by the words up to now
	former  []*topicNode // by the words before the last
}

type topicNode struct {
	next map[string]*topicNode // by word, * and # included
	here bindingList           // of patterns that end here
	hash bool                  // the node of a #
	step uint64                // the last step that reached it
}

// topicWords splits a key. An empty key has no words, a single dot has two empty ones.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// patternWords splits a pattern. It drops a # that follows another.
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

// remove reports whether the node has no bindings and no successors left.
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

// follow replaces the reached nodes by their successors for a word.
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
