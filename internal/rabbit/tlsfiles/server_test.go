package tlsfiles

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// servedBy returns the certificate that a server shows.
func servedBy(t *testing.T, p *pair, after time.Duration) string {
	t.Helper()
	return string(p.current(time.Now().Add(after)).Certificate[0])
}

func TestServerReadsChangedFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := File{"cert", filepath.Join(dir, "cert.pem")}, File{"key", filepath.Join(dir, "key.pem")}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	firstCert, firstKey := pairOfFiles(t)
	move(firstCert, cert.Path)
	move(firstKey, key.Path)
	var failures []error
	p := &pair{cert: cert, key: key, failed: func(err error) { failures = append(failures, err) }}
	if err := p.read(); err != nil {
		t.Fatal(err)
	}
	first := servedBy(t, p, 0)

	secondCert, secondKey := pairOfFiles(t)
	move(secondCert, cert.Path)
	if got := servedBy(t, p, time.Minute); got != first || len(failures) != 1 {
		t.Errorf("a certificate of another key is served: %v", failures)
	}
	move(secondKey, key.Path)
	second := servedBy(t, p, 2*time.Minute)
	if second == first || len(failures) != 1 {
		t.Errorf("the new certificate is not served: %v", failures)
	}
	if err := os.Remove(key.Path); err != nil {
		t.Fatal(err)
	}
	if got := servedBy(t, p, 3*time.Minute); got != second || len(failures) != 2 {
		t.Errorf("without a key the certificate is not kept: %v", failures)
	}
}

func TestNewServer(t *testing.T) {
	cert, key := pairOfFiles(t)
	conf, err := NewServer(File{"cert", cert}, File{"key", key}, func(err error) { t.Error(err) })
	if err != nil || conf.MinVersion != tls.VersionTLS12 {
		t.Fatalf("%+v, %v", conf, err)
	}
	if got, err := conf.GetCertificate(nil); err != nil || got == nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := NewServer(File{"http.tls.cert", cert}, File{"http.tls.key", cert + ".missing"}, nil); err == nil {
		t.Error("a missing key is no error")
	}
}
