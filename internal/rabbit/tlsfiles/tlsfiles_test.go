package tlsfiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pairOfFiles writes a certificate and its key.
func pairOfFiles(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})),
		write(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

func TestLoad(t *testing.T) {
	cert, key := pairOfFiles(t)
	_, otherKey := pairOfFiles(t)
	missing, empty := filepath.Join(t.TempDir(), "missing.pem"), write(t, "empty.pem", nil)
	for name, test := range map[string]struct{ ca, cert, key, want string }{
		"nothing":       {"", "", "", ""},
		"all":           {cert, cert, key, ""},
		"no such CA":    {missing, "", "", "ca: " + missing + ": no such file or directory"},
		"no PEM":        {empty, "", "", "ca: " + empty + ": expected certificates in PEM"},
		"no key":        {"", cert, "", "cert and key: expected both or neither"},
		"no cert":       {"", "", key, "cert and key: expected both or neither"},
		"no such key":   {"", cert, missing, "key: " + missing + ": no such file or directory"},
		"another key":   {"", cert, otherKey, "cert " + cert + " with key " + otherKey + ": "},
		"key, not cert": {"", key, key, "cert " + key + " with key " + key + ": "},
	} {
		conf, err := Load(File{"ca", test.ca}, File{"cert", test.cert}, File{"key", test.key})
		if test.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", name, err, test.want)
			}
			continue
		}
		if err != nil || (conf.RootCAs != nil) != (test.ca != "") || (len(conf.Certificates) == 1) != (test.cert != "") {
			t.Errorf("%s: %+v, %v", name, conf, err)
		}
	}
}
