package collateral_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
)

func openCloud(t testing.TB) *attestsim.Cloud {
	t.Helper()
	c, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clock is set by hand.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).Unix())
	return c
}

func (c *clock) now() time.Time       { return time.Unix(c.at.Load(), 0).UTC() }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d / time.Second)) }

// service is a PCCS and a client of it on one clock.
type service struct {
	*clock
	sim    *attestsim.PCCS
	client *collateral.PCCS
	server *httptest.Server
}

func newService(t testing.TB, wrap func(http.Handler) http.Handler) *service {
	t.Helper()
	s := &service{clock: newClock()}
	s.sim = openCloud(t).NewPCCS(s.now)
	var handler http.Handler = s.sim
	if wrap != nil {
		handler = wrap(handler)
	}
	s.server = httptest.NewServer(handler)
	t.Cleanup(s.server.Close)
	var err error
	if s.client, err = collateral.NewPCCS(collateral.PCCSConfig{URL: s.server.URL, Now: s.now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

func (s *service) get() (collateral.Bundle, error) {
	return s.client.Bundle(context.Background(), attestsim.FMSPC())
}

const requestsPerBundle = 4

func TestPCCSCachesUntilItIsToRefresh(t *testing.T) {
	s := newService(t, nil)
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{0, 4}, {0, 4}, {5 * time.Hour, 4}, {2 * time.Hour, 8}, {time.Hour, 8}} {
		s.pass(step.pass)
		b, err := s.get()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.sim.Requests(); got != step.want {
			t.Errorf("after %s: %d requests, want %d", step.pass, got, step.want)
		}
		if fmspc, until, err := b.Claims(); err != nil || fmspc != attestsim.FMSPC() || !until.After(s.now()) {
			t.Errorf("bundle of %q until %s, %v", fmspc, until, err)
		}
	}
}

func TestPCCSFetchesOnceForManyCallers(t *testing.T) {
	s := newService(t, nil)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, err := s.get(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := s.sim.Requests(); got != requestsPerBundle {
		t.Errorf("%d requests for 50 callers, want %d", got, requestsPerBundle)
	}
}

// Fetched collateral is used while the service is down, and not every call makes a request.
func TestATT06_FetchedCollateralIsUsedWhileTheServiceIsDown(t *testing.T) {
	s := newService(t, nil)
	if _, err := s.get(); err != nil {
		t.Fatal(err)
	}
	s.sim.Set(attestsim.Posture{Down: true})
	s.pass(7 * time.Hour)
	for range 20 {
		if _, err := s.get(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.sim.Requests(); got != requestsPerBundle+1 {
		t.Errorf("%d requests, want %d: one try of a service that is down", got, requestsPerBundle+1)
	}
	s.pass(11 * time.Second)
	s.sim.Set(attestsim.Posture{Evaluation: 18})
	b, err := s.get()
	if err != nil || !strings.Contains(b.TCBInfo, `"tcbEvaluationDataNumber":18`) {
		t.Errorf("after it came back: %v", err)
	}
}

func TestATT06_AServiceThatWasNeverUpGivesNothing(t *testing.T) {
	s := newService(t, nil)
	s.sim.Set(attestsim.Posture{Down: true})
	_, err := s.get()
	wantUnavailable(t, "down", err)
	_, err = s.client.Bundle(context.Background(), "00000000ffff")
	wantUnavailable(t, "unknown family", err)
}

func TestATT28_OnlyAnFMSPCGetsIntoAURL(t *testing.T) {
	s := newService(t, nil)
	for _, fmspc := range []string{"", "53494d00000", "53494D000000", "../../../etc", "53494d000000&x=1", "53494d00000\n", "http://a.b/c"} {
		_, err := s.client.Bundle(context.Background(), fmspc)
		wantUnavailable(t, fmspc, err)
	}
	if got := s.sim.Requests(); got != 0 {
		t.Errorf("%d requests", got)
	}
}

func TestATT28_AnswersAreBounded(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		},
		"empty":   func(http.ResponseWriter, *http.Request) {},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"status":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/x", http.StatusFound)
		},
		"in circles": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
	} {
		s := newService(t, func(http.Handler) http.Handler { return serve })
		_, err := s.get()
		wantUnavailable(t, name, err)
	}
}

// A part from elsewhere: each is refused as a whole bundle.
func TestPCCSRefusesAnswersWithoutTheirIssuer(t *testing.T) {
	for _, path := range []string{"/tdx/certification/v4/tcb", "/tdx/certification/v4/qe/identity", "/sgx/certification/v4/pckcrl"} {
		s := newService(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				if r.URL.Path != path {
					for name, values := range rec.Header() {
						w.Header()[name] = values
					}
				}
				_, _ = w.Write(rec.Body.Bytes())
			})
		})
		_, err := s.get()
		wantUnavailable(t, path, err)
	}
}

func TestPCCSURLs(t *testing.T) {
	for _, url := range []string{"", "ftp://x", "pccs.example", "https://", "https://u:p@x", "https://x?a=b", "https://x#f", "http://x\n"} {
		if _, err := collateral.NewPCCS(collateral.PCCSConfig{URL: url}); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
	for _, url := range []string{collateral.IntelURL, "http://10.0.0.1:8081", "https://pccs.example/base/"} {
		if _, err := collateral.NewPCCS(collateral.PCCSConfig{URL: url}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Intel's own service has its root list elsewhere.
func TestIntelsServiceIsAskedAtItsOwnPlaces(t *testing.T) {
	var asked []string
	p, err := collateral.NewPCCS(collateral.PCCSConfig{URL: collateral.IntelURL, Transport: transport(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		rec := httptest.NewRecorder()
		return rec.Result(), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Bundle(context.Background(), "90c06f000000")
	wantUnavailable(t, "empty answers", err)
	want := []string{
		"https://api.trustedservices.intel.com/tdx/certification/v4/tcb?fmspc=90c06f000000",
		"https://api.trustedservices.intel.com/tdx/certification/v4/qe/identity",
		"https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?ca=platform&encoding=der",
		"https://certificates.trustedservices.intel.com/IntelSGXRootCA.der",
	}
	if strings.Join(asked, " ") != strings.Join(want, " ") {
		t.Errorf("asked %v", asked)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	cloud, dir, now := openCloud(t), t.TempDir(), newClock()
	write := func(name string, posture attestsim.Posture, at time.Time) {
		t.Helper()
		b, err := cloud.Collateral(now.now(), posture)
		if err != nil {
			t.Fatal(err)
		}
		data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	f := &collateral.Files{Path: dir}
	get := func() (collateral.Bundle, error) { return f.Bundle(context.Background(), attestsim.FMSPC()) }
	_, err := get()
	wantUnavailable(t, "empty folder", err)
	write("a.json", attestsim.Posture{Evaluation: 18}, now.now())
	if b, err := get(); err != nil || !strings.Contains(b.TCBInfo, `Number":18`) {
		t.Errorf("first file: %v", err)
	}
	write("b.json", attestsim.Posture{Evaluation: 19}, now.now().Add(time.Hour))
	if b, err := get(); err != nil || !strings.Contains(b.TCBInfo, `Number":19`) {
		t.Errorf("the newer file does not count: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); err != nil {
		t.Errorf("a bad file hides the good ones: %v", err)
	}
	one := &collateral.Files{Path: filepath.Join(dir, "a.json")}
	if b, err := one.Bundle(context.Background(), attestsim.FMSPC()); err != nil || !strings.Contains(b.TCBInfo, `Number":18`) {
		t.Errorf("one file: %v", err)
	}
	_, err = (&collateral.Files{Path: filepath.Join(dir, "absent")}).Bundle(context.Background(), attestsim.FMSPC())
	wantUnavailable(t, "absent", err)
	_, err = f.Bundle(context.Background(), "000000000000")
	wantUnavailable(t, "another family", err)
	both := collateral.Sources{&collateral.Files{Path: filepath.Join(dir, "absent")}, f}
	if _, err := both.Bundle(context.Background(), attestsim.FMSPC()); err != nil {
		t.Errorf("the second source: %v", err)
	}
	_, err = both.Bundle(context.Background(), "000000000000")
	wantUnavailable(t, "no source", err)
}

// TestATT05_ANewerEvaluationElsewhereIsFetchedAtOnce: a caller that knows of a newer evaluation
// does not wait for the refresh of the bundle, and does not flood a lagging service.
func TestATT05_ANewerEvaluationElsewhereIsFetchedAtOnce(t *testing.T) {
	s := newService(t, nil)
	b, err := s.get()
	wantNumber(t, "at first", b, err, "17")
	newer := func() (collateral.Bundle, error) { return s.client.Newer(context.Background(), attestsim.FMSPC()) }
	s.sim.Set(attestsim.Posture{Evaluation: 18})
	b, err = newer()
	wantNumber(t, "asked again, a moment after a fetch", b, err, "18")
	b, err = s.get()
	wantNumber(t, "kept from then on", b, err, "18")
	for _, down := range []bool{false, true} {
		s.sim.Set(attestsim.Posture{Evaluation: 18, Down: down})
		before := s.sim.Requests()
		for range 20 {
			s.pass(time.Second)
			if _, err := newer(); err != nil {
				t.Fatal(err)
			}
		}
		if got, most := s.sim.Requests()-before, 2*requestsPerBundle; got > most {
			t.Errorf("down=%t: %d requests of a caller that asks each second for 20 s, want %d at most", down, got, most)
		}
	}
	if _, err := s.client.Newer(context.Background(), "../x"); err == nil {
		t.Error("a family that is no family was asked for")
	}
}
