package driver_test

import (
	"bytes"
	"context"
	"testing"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/drivercheck"
)

func init() {
	driver.Conformance = func(t *testing.T, d driver.Driver, self string, votes bool, candidates []string) {
		t.Helper()
		cfg := drivercheck.Config{Driver: d, Self: self, Votes: votes, Candidates: candidates, Transfer: true, Drain: true}
		drivercheck.Run(t.Context(), cfg, func(r drivercheck.Result) {
			switch r.Outcome {
			case drivercheck.Failed:
				t.Errorf("%s: %s: %s\nexpected: %s", self, r.Check, r.Text, r.Expected)
			case drivercheck.Passed:
				t.Logf("%s: %s: %s", self, r.Check, r.Text)
			}
		})
	}
	driver.CheckAdapter = func(ctx context.Context, args ...string) (int, string) {
		var out bytes.Buffer
		code := drivercheck.Command(ctx, append([]string{"check"}, args...), func(string) string { return "" }, &out, &out)
		return code, out.String()
	}
}

// TestTheDriverWithoutAWorkloadConforms: the real tests hold the other built-in drivers to the suite.
func TestTheDriverWithoutAWorkloadConforms(t *testing.T) {
	d, err := driver.New(driver.Config{Kind: "none", Self: "web-0"})
	if err != nil {
		t.Fatal(err)
	}
	driver.Conformance(t, d, "web-0", false, nil)
}
