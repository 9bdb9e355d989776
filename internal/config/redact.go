package config

import (
	"slices"

	"github.com/watershipmq/watership/privacy"
)

func readRedactRule(l *loader, path string, n node) privacy.Rule {
	var rule privacy.Rule
	l.readFields(path, n,
		structureField{name: "exchange", read: scalar(boundedText(1, shortString), &rule.Exchange)},
		structureField{name: "key", read: scalar(boundedText(1, shortString), &rule.Key)},
		structureField{name: "header", read: scalar(headerName, &rule.Header)},
		structureField{name: "json", read: scalar(boundedText(1, 1000), &rule.JSON)},
		structureField{name: "text", read: scalar(oneOf(privacy.Texts()...), &rule.Text)},
		structureField{name: "pattern", read: scalar(boundedText(1, 1000), &rule.Pattern)},
		structureField{name: "subject", read: scalar(boolean, &rule.Subject)},
		structureField{name: "as", read: scalar(boundedText(1, 20), &rule.As)},
	)
	return rule
}

func (k checker) checkRedaction(c Redact) {
	for i, rule := range c.Rules {
		if err := rule.Check(); err != nil {
			k.failAt(element("redact.rules", i), err.Error())
		}
	}
	namesSubjects := slices.ContainsFunc(c.Rules, func(r privacy.Rule) bool { return r.Subject })
	k.rejectIf("redact.original_keys_file", namesSubjects && c.OriginalKeysFile == "", "a file with a key, which rules with subject need to seal the keys of subjects")
	k.rejectIf("redact.hash_key_file", len(c.Rules) > 0 && c.HashKeyFile == "", "a file with a key, which redact.rules need, such as of `openssl rand -hex 32`")
}
