package server

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/core/upgrade"
)

// errNotListed: members' versions need no listing, and an apply does not wait for a slow platform.
var errNotListed = errors.New("the platform was not asked")

// versionsJudged rejects a spec whose server certainly cannot run on the disks of the group's members, and returns
// the other findings about its versions as warnings. It judges no spec that keeps the revision.
func (c *caller) versionsJudged(spec group.Spec) (warnings []string, err error) {
	stored, known := c.view.Specs[spec.Name]
	if !known || stored.Value.Revision() == spec.Revision() || len(upgrade.Targets(spec)) == 0 {
		return nil, nil
	}
	s := c.server
	now := s.cfg.Now().UTC()
	seen := observe.Group(c.view, spec, s.cfg.Cluster, observe.Listing{At: now, Err: errNotListed}, s.cfg.Reports)
	var problems []string
	for _, f := range rollout.Evaluate(seen.Spec, seen.Records, seen.Now, now, s.cfg.Timing).VersionFindings() {
		if f.Refused {
			problems = append(problems, upgrade.Field(spec)+": "+f.String())
		} else {
			warnings = append(warnings, f.String())
		}
	}
	if len(problems) > 0 {
		return nil, status.Error(codes.FailedPrecondition, string(policy.CodeVersionStep)+": "+strings.Join(problems, "; "))
	}
	return warnings, nil
}
