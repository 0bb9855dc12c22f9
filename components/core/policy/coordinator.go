package policy

import "time"

// AppraiseCoordinator decides for a coordinator whether genuine Claims prove another coordinator:
// the coordinators' app, the pinned key provider, an OS image of the trust file, and a machine with
// a tolerated TCB. The compose file is not judged, because coordinators are upgraded one after
// another; every party that may upgrade the app has its keys.
func AppraiseCoordinator(ip ImagePolicy, appID string, c Claims, now time.Time) Decision {
	if err := ip.Validate(); err != nil {
		return deny(CodePolicyInvalid, "%v", err)
	}
	if appID == "" || c.AppID != appID {
		return deny(CodeAppIDMismatch, "it runs in app %.40s, the coordinators' is %.40s", c.AppID, appID)
	}
	if c.Simulated && !ip.AllowSimulated {
		return deny(CodeTEETypeForbidden, "the evidence comes from a simulated root, which this cluster does not name")
	}
	if c.AppComposeProblem != "" {
		return deny(CodeComposeForbidden, "app-compose.json: %s", c.AppComposeProblem)
	}
	for _, check := range []func() Decision{
		func() Decision { return keyProvider(ip, c) },
		func() Decision { return measured(ip, c) },
		func() Decision { return AppraiseTCB(ip.TCB, c.TCB, now) },
	} {
		if d := check(); d.Code != "" {
			return d
		}
	}
	return Decision{Allowed: true}
}
