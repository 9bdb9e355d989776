// Package tlsfiles makes the TLS configuration of a client or a server from files in PEM.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File is a file and the setting that names it, for errors.
type File struct {
	Setting string
	Path    string // empty: the file is not set
}

// Load reads the certificates to trust, and the client's certificate with its key.
// Without ca, it trusts the operating system's certificates.
func Load(ca, cert, key File) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca.Path != "" {
		authorities, err := ca.read()
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s: %s: expected certificates in PEM", ca.Setting, ca.Path)
		}
	}
	if (cert.Path == "") != (key.Path == "") {
		return nil, fmt.Errorf("%s and %s: expected both or neither", cert.Setting, key.Setting)
	}
	if cert.Path == "" {
		return conf, nil
	}
	pair, err := readPair(cert, key)
	if err != nil {
		return nil, err
	}
	conf.Certificates = []tls.Certificate{pair}
	return conf, nil
}

func readPair(cert, key File) (tls.Certificate, error) {
	public, err := cert.read()
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := key.read()
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(public, private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s %s with %s %s: %w", cert.Setting, cert.Path, key.Setting, key.Path, err)
	}
	return pair, nil
}

func (f File) read() ([]byte, error) {
	content, err := os.ReadFile(f.Path)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, fmt.Errorf("%s: %s: %w", f.Setting, f.Path, path.Err)
	}
	return content, err
}
