package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"cadre.dev/attest/attestsim"
)

// posture is the body of PUT /_local/collateral. An empty object is a manufacturer whose collateral
// calls every machine up to date.
type posture struct {
	attestsim.Posture
	// Age and Life are durations, "48h" for example.
	Age  string `json:"age"`
	Life string `json:"life"`
}

// putCollateral changes the simulated manufacturer's verdicts on its machines.
func (s *Server) putCollateral(r *http.Request) (int, any, error) {
	var p posture
	if err := decodeLocal(r, &p); err != nil {
		return 0, nil, err
	}
	if s.cfg.PCCS == nil {
		return 0, nil, errors.New("this cloud serves no collateral")
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"age", p.Age, &p.Posture.Age}, {"life", p.Life, &p.Posture.Life}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.text); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	s.cfg.PCCS.Set(p.Posture)
	return http.StatusOK, map[string]any{}, nil
}
