package analyzer

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	long := strings.Repeat("x", 600)
	for text, want := range map[string][]string{
		"":                                  nil,
		" \t\n…—!":                          nil,
		"pi is 3.14, don't ask example.com": {"pi", "is", "3.14", "don't", "ask", "example.com"},
		"order-1 a:b a_b __ A.B.C 1,000.5":  {"order", "1", "a:b", "a_b", "a.b.c", "1,000.5"},
		"東京タワー 订单ひら 한국어":                    {"東", "京", "タワー", "订", "单", "ひ", "ら", "한국어"},
		"I 😀👍🏽 👨‍👩‍👧 🇩🇪🇫🇷 1️⃣ ©": {"i", "😀", "👍🏽", "👨‍👩‍👧", "🇩🇪", "🇫🇷", "1️⃣", "©"},
		"ภาษาไทย ๑๒ကခ":           {"ภาษาไทย", "๑๒", "ကခ"},
		"É e\u0301 İ ß Straße":   {"é", "e\u0301", "i", "ß", "straße"},
		long + " y":              {long[:255], long[:255], long[:90], "y"},
	} {
		if got := Words(text); !slices.Equal(got, want) {
			t.Errorf("%.60q: got %q, want %q", text, got, want)
		}
	}
}

// TestWordsAreElasticsearchs compares words with the tokens of the server.
func TestWordsAreElasticsearchs(t *testing.T) {
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		t.Skip("WATERSHIP_TEST_STORE_URL is not set: no Elasticsearch to compare with")
	}
	const seed, texts, lines = 7, 20, 200
	parts := strings.Split("a|b|Z|é|e\u0301|ß|İ|1|2|٣|_|.|,|;|:|'|’|\"|-|@|#|/| | |東|京|々|ひ|ゔ|カ|ー|ﾀ|한|국|ᄒ|א|ע|ไท|ย่|๑|ລ|ခ်|😀|👍🏽|👨\u200d👩|❤\ufe0f|🇩🇪|©|™|↔|①|Ⓐ|²|½|Ⅷ|\u200b|क|षि|$|€|+|\u00a0|\u3000|·", "|")
	random := rand.New(rand.NewPCG(seed, 0))
	for range texts {
		var text strings.Builder
		for range lines {
			for range 1 + random.IntN(6) {
				text.WriteString(parts[random.IntN(len(parts))])
			}
			text.WriteString("\n")
		}
		wantSameWords(t, server, text.String())
	}
}

// TestLongWordsAreElasticsearchs: words are cut at the same places, also before or after
// characters of two UTF-16 code units and characters that begin no word.
func TestLongWordsAreElasticsearchs(t *testing.T) {
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		t.Skip("WATERSHIP_TEST_STORE_URL is not set: no Elasticsearch to compare with")
	}
	const seed, texts = 11, 200
	parts := strings.Split("a|é|e\u0301|1|_|__|.|'|タ|한|𝐀|ก|👨\u200d👩", "|")
	random := rand.New(rand.NewPCG(seed, 0))
	for range texts {
		filler := pick(random, "a", "𝐀", "ก", "タ", "1", "한")
		text := strings.Repeat(filler, 120+random.IntN(140))
		for range random.IntN(20) {
			text += parts[random.IntN(len(parts))]
		}
		text += strings.Repeat(filler, random.IntN(600))
		wantSameWords(t, server, text)
	}
}

func pick(random *rand.Rand, list ...string) string { return list[random.IntN(len(list))] }

func wantSameWords(t *testing.T, server, text string) {
	t.Helper()
	got, want := Words(text), analyzed(t, server, text)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("word %d is %+q, Elasticsearch has %+q", i, got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d words, Elasticsearch has %d, in %.700q", len(got), len(want), text)
	}
}

func analyzed(t *testing.T, server, text string) (words []string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"analyzer": "standard", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(server+"/_analyze", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Tokens []struct{ Token string }
	}
	if err := json.Unmarshal(answer, &read); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %.200s %v", response.Status, answer, err)
	}
	for _, token := range read.Tokens {
		words = append(words, token.Token)
	}
	return words
}

// FuzzWords: the tokenizer of the table can split the words of any text.
func FuzzWords(f *testing.F) {
	for _, text := range []string{"pi is 3.14", "東京 😀", "\x00\x7f", "👨\u200d👩", "א\"ב", strings.Repeat("ก", 300), strings.Repeat("a.", 300), "#️⃣", "\u200d\u0301"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // JSON has none
		}
		list := Words(text)
		for _, word := range list {
			if word == "" || strings.ContainsFunc(word, IsSeparator) || len(utf16.Encode([]rune(word))) > maxWordLength+1 { // lower case may be longer
				t.Fatalf("%q has the word %q", text, word)
			}
		}
		if again := strings.Split(strings.Join(list, " "), " "); len(list) > 0 && !slices.Equal(again, list) {
			t.Errorf("%q became %q", list, again)
		}
	})
}

func BenchmarkWords(b *testing.B) {
	for name, text := range map[string]string{
		"JSON": strings.Repeat(`{"sku":"sku-1234","qty":3,"note":"left at the door"},`, 100), "Chinese": strings.Repeat("订单已发货，", 300),
		"one word": strings.Repeat("x", 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Words(text)
			}
		})
	}
}
