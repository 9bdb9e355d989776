package errorgroup

import (
	"slices"
	"strings"
)

// Words before a number that make it a status or the code of an error.
var statusWords = []string{
	"status", "statuscode", "status_code", "status-code", "httpstatus", "http_status", "http", "https", "httpcode", "http_code",
	"errno", "errcode", "err_code", "errorcode", "error_code", "error-code", "errornumber", "winerror", "sqlcode", "sqlstate", "hresult", "ntstatus",
	"exitcode", "exit_code", "exit-code", "exit", "exited", "returncode", "return_code", "replycode", "reply-code", "reply_code", "reasoncode", "reason_code", "rc", "responsecode", "response_code", "resultcode", "result_code",
	"answered",
}

// Words before "code" that make a number after it the code of an error.
var codeWords = []string{"status", "error", "exit", "return", "response", "result", "http", "reply", "reason", "err", "sql", "state", "rpc", "fault", "exception", "abort"}

// Words before a status of HTTP.
var (
	answerWords = []string{"responded", "returned", "returns", "return", "replied", "got", "received", "failed", "response", "gave", "unexpected", "reported", "sent", "respond", "fetch"}
	exitWords   = []string{"responded", "failed", "ended", "answered", "replied", "rejected", "exited", "terminated", "completed", "respond", "finished", "status"}
	answerNouns = []string{"response", "answer", "reply", "request", "server", "upstream", "gateway", "api", "service", "webhook", "fetch", "url", "get", "post", "put", "patch", "delete", "responded", "call", "download", "upload", "backend", "endpoint", "client", "remote"}
	clauseWords = []string{"from", "for", "on", "while", "when", "to", "at", "after", "by", "in", "error", "status", "response", "and", "instead"}
)

// Phrases of HTTP after a status, in lower case.
var reasons = []string{
	"bad request", "unauthorized", "payment required", "forbidden", "not found", "method not allowed", "not acceptable", "proxy authentication", "request timeout",
	"conflict", "gone", "length required", "precondition", "request entity", "payload too", "content too", "uri too", "unsupported media", "expectation failed",
	"unprocessable", "locked", "failed dependency", "too many requests", "internal server error", "internal error", "not implemented", "bad gateway", "service unavailable",
	"service temporarily", "gateway time", "http version", "insufficient storage", "client error", "server error", "moved permanently", "found", "not modified",
}

// isReason reports whether a text begins with a phrase of HTTP.
func isReason(lower string) bool {
	return slices.ContainsFunc(reasons, func(reason string) bool { return strings.HasPrefix(lower, reason) })
}

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(words) {
		all[w] = true
	}
	return all
}

var (
	// nameNouns are words before the name of something in a program.
	nameNouns = set(`column field relation table constraint property attribute index function method class module package type variable
		parameter param argument option header schema database sequence trigger view enum import symbol operator member element tag label queue
		exchange topic route template partial collection key procedure keyword struct interface trait model entity namespace macro plugin driver
		extension directive component service bean setting flag command subcommand action policy role privilege permission scope claim alias
		identifier name getter setter slot hook migration library object instance file-type mimetype content-type encoding charset protocol
		scheme algorithm cipher locale-file vhost binding consumer`)

	// valueNouns are words before a value of one message.
	valueNouns = set(`user username login customer client-name account tenant member-id currency sku article product item order invoice country city
		region language locale symbol ticker iban bic isbn ean gtin barcode coupon voucher email mailbox recipient sender address host hostname peer node
		employee supplier vendor merchant shop store warehouse shipment parcel carrier company organisation organization contact person owner author
		id ids uuid guid token session ref reference serial batch lot ticket subscription device sensor entry literal value string input text
		password secret thread phone plate vin title subject filename folder directory path document attachment image bucket blob artist album airport station`)

	// goods are those whose values look like words.
	goods = set(`sku article product item coupon voucher barcode currency country`)

	// inputWords are words some words before a value that could not be read.
	inputWords = set(`literal string value values input parse parsing parsed convert converting cannot-convert token character characters entry duplicate got received found date time timestamp number integer decimal float uuid json text`)

	// technical are names with digits, in lower case.
	technical = set(`s3 r2 ec2 md5 sha1 sha-1 sha2 sha256 sha-256 sha384 sha512 sha-512 ipv4 ipv6 utf8 utf-8 utf16 utf-16 utf-32 utf8mb4 oauth2 oauth1 http2 http1 http3 h2 h2c k8s
		x509 log4j log4j2 neo4j base64 base32 base58 pkcs7 pkcs8 pkcs12 pkcs1 p12 mp3 mp4 web3 i18n l10n db2 int8 int16 int32 int64 uint8 uint16 uint32 uint64
		float32 float64 float16 decimal128 u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 es6 es5 lz4 bzip2 bz2 aes128 aes256 aes-256 aes-128 rsa2048 tls1.2 tls1.3 tlsv1 tlsv1.2 tlsv1.3
		iso-8859-1 iso8859-1 windows-1252 cp1252 latin1 iso8601 iso-8601 rfc3339 rfc2822 v1 v2 v3 v4 amqp091 amqp1 amqp10 mqtt5 ed25519 p256 p-256 es256 rs256 hs256 x11 x86 x64 x86_64 arm64 amd64
		b2b b2c p2p e2e e2b a11y 2fa mp2 vp9 h264 h265 dom4j sqlite3 psycopg2 urllib3 boto3 jinja2 python3 libssl3 ipv4/ipv6 jsr303 pop3 imap4 smtp2 level1 oracle11g ora12 win32 java8 c14n s3a gb18030 gb2312 sm2 crc32 crc-32 utf8mb3 enoent2 i2c ps2`)

	// idPrefixes are what ids begin with that look like codes.
	idPrefixes = set(`ord order inv invoice sku cust customer id req request tx txn po so rma job task ticket case ref item art article prod product pkg shp ship
		shipment pay usr user acc acct account msg evt doc row line node host worker pod shard part batch a b p n k c o u q t lot bin`)
)

func isTechnical(word string) bool { return technical[strings.ToLower(word)] }

// isValueName reports whether the name of an assignment says that its value is one of many.
func isValueName(name string) bool {
	if valueNouns[name] {
		return true
	}
	for _, end := range []string{"id", "_key", "-key", "name", "token", "email", "uuid", "hash", "sku", "number", "_no", "address"} {
		if strings.HasSuffix(name, end) && name != "errornumber" && name != "invalid" && name != "valid" {
			return true
		}
	}
	return false
}

// isCode reports whether a word with digits is the code of an error, by its form and its place.
func (s *scanner) isCode(text string) bool {
	if s.isSQLState(text) {
		return true
	}
	letters := 0
	for letters < len(text) && (isUpper(text[letters]) || text[letters] == '_') {
		letters++
	}
	digits := strings.TrimLeft(text[letters:], "-")
	count := digitsLength(digits)
	if letters == 0 || letters > 12 || count == 0 || count > 6 || len(digits) > count+1 || len(digits) == count+1 && !isUpper(digits[count]) {
		return false
	}
	after := s.text[s.at+len(text):]
	between, before := s.between(), s.words[0]
	follows := strings.Trim(between, " =:([#") == "" && len(between) <= 3
	switch {
	case follows && (slices.Contains(statusWords, before) || before == "error" || before == "err" || before == "fault" || before == "exception" || before == "warning" || before == "reason" || before == "rule"):
		return true
	case follows && before == "code" && (slices.Contains(codeWords, s.words[1]) || s.words[1] == ""):
		return true
	case idPrefixes[strings.ToLower(strings.TrimRight(text[:letters], "_"))]:
		return false
	}
	begins := s.at == 0 || strings.HasSuffix(s.text[:s.at], ": ") || strings.HasSuffix(s.text[:s.at], "; ") || s.text[s.at-1] == '(' || s.text[s.at-1] == '['
	ends := after == "" && s.at > 0 && between != " " || after != "" && strings.IndexByte(":)]", after[0]) >= 0 || strings.HasPrefix(after, " - ") || s.at == 0 && strings.HasPrefix(after, " ") && count >= 4 && letters == 1 && text[0] == 'E'
	return begins && ends
}

// isHeading reports whether a word is followed by a colon, as a heading is.
func (p *place) isHeading(n int) bool { return strings.HasPrefix(p.text[p.at+n:], ":") }

// units are words after a number that are part of the value.
var units = set(`ns us µs μs ms msec msecs millis sec secs second seconds millisecond milliseconds microsecond microseconds nanosecond nanoseconds
	min mins minute minutes hr hrs hour hours day days week weeks month months year years
	byte bytes kb mb gb tb pb kib mib gib tib kbyte mbyte bit bits kbit mbit octets px percent am pm
	usd eur gbp chf jpy kg km cm mm`)

// months and weekdays are part of dates, with digits near them.
var (
	months   = set(`jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july august september october november december`)
	weekdays = set(`mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday sunday`)
	zones    = set(`gmt utc cet cest est edt pst pdt cst cdt mst mdt bst ist jst eet eest msk z`)
)
