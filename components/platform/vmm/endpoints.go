package vmm

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Networking modes of a CVM. The empty mode is the host's default.
const (
	// NetworkUser is NAT in the host's process.
	NetworkUser = "user"
	// NetworkBridge puts the CVM into the host's network: CVMs reach each other directly.
	NetworkBridge = "bridge"
)

// maxEndpoints bounds the hosts of one platform, which are all asked by each listing.
const maxEndpoints = 64

// Endpoint is one dstack-vmm.
type Endpoint struct {
	// Name is the id of the Node: it is unique, and stays when the URL changes.
	Name string
	// Region is a failure domain of several hosts; empty: unknown.
	Region string
	// URL is unix:///path, http://host:port or https://host[:port][/prefix].
	URL string
	// Networking of new CVMs: empty (the host's default), NetworkUser or NetworkBridge.
	Networking string
}

// nameForm is that of names and regions of hosts.
var hostNameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ParseEndpoints reads "NAME[@REGION]=URL,NAME[@REGION]=URL". The query "?networking=user" or
// "?networking=bridge" of a URL sets the networking of new CVMs of that host. The error names every
// problem with its endpoint, and contains no credentials.
func ParseEndpoints(text string) ([]Endpoint, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("vmm endpoints are empty: write NAME=URL, as in node-1=https://node-1.example:9080")
	}
	var (
		out  []Endpoint
		errs []error
	)
	for n, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		place, target, ok := strings.Cut(part, "=")
		if !ok || part == "" {
			errs = append(errs, fmt.Errorf("vmm endpoint %d: want NAME[@REGION]=URL", n+1))
			continue
		}
		name, region, _ := strings.Cut(place, "@")
		e := Endpoint{Name: name, Region: region}
		var problems []error
		e.URL, e.Networking, problems = readURL(target)
		if strings.HasSuffix(place, "@") {
			problems = append(problems, errors.New("the region behind @ is empty: leave the @ out"))
		}
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("vmm endpoint %d (%.64q): %w", n+1, name, problem))
		}
		out = append(out, e)
	}
	if err := errors.Join(append(errs, check(out)...)...); err != nil {
		return nil, err
	}
	return out, nil
}

// readURL splits the URL of an endpoint from its settings.
func readURL(text string) (base, networking string, problems []error) {
	u, err := url.Parse(text)
	if err != nil {
		// The parser's own error repeats the text, which may hold credentials.
		return text, "", []error{errors.New("its URL cannot be read: want unix:///path, http://host:port or https://host:port")}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		problems = append(problems, errors.New("the query of its URL cannot be read"))
	}
	for key := range query {
		if key != "networking" {
			problems = append(problems, fmt.Errorf("the query has %.40q: only networking is known", key))
		}
	}
	networking = query.Get("networking")
	if query.Has("networking") && networking == "" {
		problems = append(problems, errors.New("networking is empty: use user or bridge, or leave it out"))
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String(), networking, problems
}

// check reports each problem of the list.
func check(list []Endpoint) []error {
	var errs []error
	names, urls := map[string]bool{}, map[string]string{}
	if len(list) > maxEndpoints {
		errs = append(errs, fmt.Errorf("vmm endpoints: %d hosts, at most %d", len(list), maxEndpoints))
	}
	for n, e := range list {
		add := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("vmm endpoint %d (%.64q): %w", n+1, e.Name, fmt.Errorf(format, args...)))
		}
		if !hostNameForm.MatchString(e.Name) {
			add("the name must be 1 to 63 lower-case letters, digits, '.', '_' and '-'")
		}
		if e.Region != "" && !hostNameForm.MatchString(e.Region) {
			add("the region %.64q must be 1 to 63 lower-case letters, digits, '.', '_' and '-'", e.Region)
		}
		if names[e.Name] {
			add("the name is used twice: give each host its own")
		}
		names[e.Name] = true
		if !slices.Contains([]string{"", NetworkUser, NetworkBridge}, e.Networking) {
			add("networking is %.40q: use user or bridge, or leave it out for the host's default", e.Networking)
		}
		if problem := checkURL(e.URL); problem != nil {
			add("%w", problem)
			continue
		}
		key := strings.TrimRight(e.URL, "/")
		if other, ok := urls[key]; ok {
			add("it has the URL of %q: one VMM is one host", other)
		}
		urls[key] = e.Name
	}
	return errs
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("its URL cannot be read: want unix:///path, http://host:port or https://host:port")
	case u.User != nil:
		return errors.New("its URL has credentials: give the token as the platform's key")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("its URL has a query or a fragment")
	}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || !path.IsAbs(u.Path) || u.Path == "/" {
			return errors.New("its URL names no socket: want unix:///path/to/vmm.sock with three slashes")
		}
	case "http", "https":
		if u.Hostname() == "" {
			return errors.New("its URL has no host: want " + u.Scheme + "://host:port")
		}
	default:
		return fmt.Errorf("its URL has the scheme %.20q: use unix, http or https", u.Scheme)
	}
	return nil
}
