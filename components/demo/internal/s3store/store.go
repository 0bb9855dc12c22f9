// Package s3store is an S3 store in memory behind TLS, with a CA of its own. It stands for the
// untrusted store of a cloud.
package s3store

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Store answers until Close. Safe for concurrent use.
type Store struct {
	// CA is the authority of the store's certificate, in PEM.
	CA     string
	server *http.Server

	mu     sync.Mutex // guards the following
	key    string     // id of the access key that alone may enter
	held   string     // uploads with it in their path wait
	free   chan struct{}
	waits  chan struct{} // closed when the first upload waits
	puts   map[string]time.Time
	leaked []string
	secret [][]byte
}

// Serve serves on l, which clients know as host. A request needs an access key with the id key; the
// store does not check signatures. It notes each upload that has one of the secrets in it.
func Serve(l net.Listener, host, key string, secrets ...string) (*Store, error) {
	cert, ca, err := certify(host)
	if err != nil {
		return nil, err
	}
	s := &Store{CA: ca, key: key, puts: map[string]time.Time{}}
	for _, one := range secrets {
		s.secret = append(s.secret, []byte(one))
	}
	handler := gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server()
	s.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.admits(r.Header.Get("Authorization")) {
				http.Error(w, "another access key", http.StatusForbidden)
				return
			}
			if r.Method == http.MethodPut || r.Method == http.MethodPost {
				if !s.wait(r) || !s.inspect(r) {
					return
				}
			}
			handler.ServeHTTP(w, r)
			if r.Method == http.MethodPut {
				s.mu.Lock()
				s.puts[r.URL.Path] = time.Now()
				s.mu.Unlock()
			}
		}),
	}
	go func() { _ = s.server.ServeTLS(l, "", "") }()
	return s, nil
}

// Close ends the store, with all that it keeps.
func (s *Store) Close() error {
	s.Release()
	return s.server.Close()
}

// Rekey admits only the access key with the id key from now on.
func (s *Store) Rekey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

func (s *Store) admits(authorization string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(authorization, "Credential="+s.key+"/")
}

// Hold lets uploads whose path has part wait until Release; the channel closes when the first waits.
func (s *Store) Hold(part string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.free, s.waits = part, make(chan struct{}), make(chan struct{})
	return s.waits
}

// Release ends Hold.
func (s *Store) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != "" {
		close(s.free)
		s.held = ""
	}
}

// wait holds an upload; false: its client is gone.
func (s *Store) wait(r *http.Request) bool {
	s.mu.Lock()
	held := s.held != "" && strings.Contains(r.URL.Path, s.held)
	free, waits := s.free, s.waits
	if held {
		select {
		case <-waits:
		default:
			close(waits)
		}
	}
	s.mu.Unlock()
	if !held {
		return true
	}
	select {
	case <-free:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Store) inspect(r *http.Request) bool {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, one := range s.secret {
		if bytes.Contains(body, one) {
			s.mu.Lock()
			s.leaked = append(s.leaked, r.URL.Path)
			s.mu.Unlock()
		}
	}
	return true
}

// Leaked lists uploads that had one of the secrets in the clear.
func (s *Store) Leaked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.leaked...)
}

// Uploads counts the uploads whose path has part, and gives the time of the last one.
func (s *Store) Uploads(part string) (count int, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, at := range s.puts {
		if strings.Contains(path, part) {
			count++
			if at.After(last) {
				last = at
			}
		}
	}
	return count, last
}

// Await waits until an upload whose path has part ended after since, and gives the time of its end.
func (s *Store) Await(ctx context.Context, part string, since time.Time) (time.Time, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, last := s.Uploads(part); last.After(since) {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for an upload of %s: %w", part, ctx.Err())
		case <-tick.C:
		}
	}
}

func certify(host string) (tls.Certificate, string, error) {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of the tests' store"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	// pgBackRest 2.45 compares texts: an address among the alternative IP addresses does not count.
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: now.Add(-time.Hour), NotAfter: ca.NotAfter}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})), nil
}
