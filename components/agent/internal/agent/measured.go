package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/attest"
)

// measuredRetry paces the question to a guest agent that is not there yet.
const measuredRetry = 500 * time.Millisecond

// measured returns once the trust file is proved to be part of this CVM's measurement. An
// unmeasured trust file ends the agent: its roots, coordinators and images are not trustworthy
// (ATT-02). The list of commands for hooks and checks comes from the same measured text.
func (a *Agent) measured(ctx context.Context) error {
	last := ""
	for {
		compose, err := attest.CheckMeasured(ctx, a.guest, a.trustFile, a.cfg.RevisionMark)
		if err == nil {
			a.command.Declare(compose)
			return nil
		}
		if _, refused := errors.AsType[*attest.Error](err); refused {
			return fmt.Errorf("check the measured trust file %s: %w", a.cfg.TrustFile, err)
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			a.cfg.Log.Warn("own evidence is not available yet", "error", err)
			last = text
		}
		timer := time.NewTimer(measuredRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
