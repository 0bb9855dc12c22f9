package overlay

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Rendezvous is one rendezvous server. It is not trusted: it can only delay.
type Rendezvous struct {
	// URL is https://host:port.
	URL string
	// CA has the roots of its certificate, in PEM; empty means the system's.
	CA []byte
}

// maxRendezvous bounds the servers of one node.
const maxRendezvous = 8

// ParseRendezvous reads servers as environments and flags have them: https URLs,
// separated by commas, and the base64 of the PEM certificates that the servers' own
// must lead to, "" for the system's. No URLs mean no servers.
func ParseRendezvous(urls, ca string) ([]Rendezvous, error) {
	var (
		servers []Rendezvous
		errs    []error
	)
	roots, err := base64.StdEncoding.DecodeString(strings.TrimSpace(ca))
	if err == nil && len(roots) > 0 {
		err = checkPEM(roots)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("rendezvous CA: %w; use the base64 of a PEM file", err))
	}
	for one := range strings.SplitSeq(urls, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			errs = append(errs, fmt.Errorf("rendezvous %.80q: want https://host[:port]", one))
			continue
		}
		servers = append(servers, Rendezvous{URL: one, CA: roots})
	}
	if len(servers) > maxRendezvous {
		errs = append(errs, fmt.Errorf("%d rendezvous servers, at most %d", len(servers), maxRendezvous))
	}
	return servers, errors.Join(errs...)
}

func checkPEM(b []byte) error {
	block, _ := pem.Decode(b)
	if block == nil {
		return errors.New("no PEM block")
	}
	_, err := x509.ParseCertificate(block.Bytes)
	return err
}

// ParsePaths reads kinds of path, separated by commas; "" means all.
func ParsePaths(text string) ([]PathKind, error) {
	var kinds []PathKind
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			kinds = append(kinds, PathKind(one))
		}
	}
	return kinds, checkPaths(kinds)
}
