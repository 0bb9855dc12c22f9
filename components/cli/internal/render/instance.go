package render

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Instance is everything about one Slot.
func Instance(s Style, i client.Instance, now time.Time) string {
	st := i.Status
	age := ""
	if st.Since != nil {
		age = " for " + since(*st.Since, now)
	}
	var b strings.Builder
	b.WriteString(s.Fields(
		Field{"slot", Cell{format.Slot(st.Slot, st.Extra), Bold}},
		Field{"group", Cell{st.Group, Plain}},
		Field{"state", Cell{string(st.State) + age, stateTone(st.State)}},
		Field{"health", Cell{st.Health, healthTone(st.Health)}},
		Field{"why", Cell{format.Why(st), Plain}},
		Field{"held by", heldField(st.Holds)},
		Field{"role", Cell{format.Role(st), Plain}},
		Field{"observed revision", Cell{st.Observed, Plain}},
		Field{"assigned revision", Cell{st.Assigned, Plain}},
		Field{"phase", Cell{st.Phase, Plain}},
		Field{"operation", Cell{st.Operation, Plain}},
		Field{"vip", Cell{st.VIP, Plain}},
		Field{"app id", Cell{st.AppID, Plain}},
		Field{"instance id", Cell{st.InstanceID, Plain}},
		Field{"vm uuid", Cell{st.VMUUID, Plain}},
		Field{"boot", Cell{st.BootID, Plain}},
		Field{"root of trust", rootField(st.Simulated)},
		Field{"machine", machineField(i.Admissions)},
		Field{"platform", Cell{st.PlatformStatus, Plain}},
		Field{"node", Cell{format.Node(st), Plain}},
		Field{"env of its own", Cell{st.OwnEnv, Plain}},
		Field{"size of its own", Cell{st.OwnInstanceType, Plain}},
		Field{"out of service", overrideField(st.Drain)},
		Field{"protected", overrideField(st.Protection)},
		Field{"excluded", overrideField(st.Exclusion)},
		Field{"healing", healField(st.Heals, now)},
	))
	if len(i.Operations) > 0 {
		b.WriteString("\n" + s.Paint("operations", Bold) + "\n" + operations(s, i.Operations, now))
	}
	if len(i.Admissions) > 0 {
		b.WriteString("\n" + s.Paint("admissions", Bold) + "\n" + admissions(s, i.Admissions))
	}
	if len(i.Lineage) > 0 {
		b.WriteString("\n" + s.Paint("CVMs before", Bold) + "\n" + lineage(s, i.Lineage))
	}
	return b.String()
}

// machineField is the short hash of the machine, and the members that share it; empty if it is not known.
func machineField(list []client.Decision) Cell {
	for _, d := range list {
		switch {
		case d.Machine == "":
		case len(d.SharesMachine) == 0:
			return Cell{fmt.Sprintf("%.16s", d.Machine), Plain}
		default:
			return Cell{fmt.Sprintf("%.16s, shared with %s", d.Machine, strings.Join(d.SharesMachine, ", ")), Warn}
		}
	}
	return Cell{}
}

func lineage(s Style, list []group.Past) string {
	rows := [][]Cell{}
	for _, p := range list {
		rows = append(rows, []Cell{C(clock(p.EndedAt)), C(p.VMUUID), C(format.Short(p.InstanceID)), C(p.Why)})
	}
	return s.Table([]string{"UNTIL", "VM UUID", "INSTANCE", "WHY"}, rows)
}

// heldField shows the holds of the Slot's next step.
func heldField(holds []group.Hold) Cell {
	parts := make([]string, len(holds))
	for i, h := range holds {
		parts[i] = h.Predicate + ": " + h.Message
	}
	return Cell{strings.Join(parts, "; "), Warn}
}

// overrideField shows an operator's override on the Slot.
func overrideField(m *group.Override) Cell {
	if m == nil {
		return Cell{}
	}
	until := "until an operator ends it"
	if !m.Until.IsZero() {
		until = "until " + clock(m.Until)
	}
	if m.LeftSeconds > 0 {
		until += " (" + format.Ago(time.Duration(m.LeftSeconds)*time.Second) + " left)"
	}
	if len(m.From) > 0 {
		until = "from " + strings.Join(m.From, " and ") + " " + until
	}
	return Cell{strings.TrimSpace(fmt.Sprintf("%s, by %s: %s", until, m.By, m.Reason)), Warn}
}

// healField shows the latest automatic repairs of the Slot.
func healField(h *group.Heals, now time.Time) Cell {
	if h == nil {
		return Cell{}
	}
	attempts := "1 attempt"
	if n := h.Attempts + h.Services; n > 1 {
		attempts = fmt.Sprintf("%d attempts in a row", n)
	}
	return Cell{fmt.Sprintf("%s, the last %s ago: %s, as %s", attempts, since(h.LastAt, now), strings.ToLower(h.LastKind), h.LastWhy), Warn}
}

// rootField shows a root of trust that is not Intel's.
func rootField(simulated bool) Cell {
	if !simulated {
		return Cell{}
	}
	return Cell{"SIMULATED: evidence is not signed by hardware", Warn}
}

func operations(s Style, list []operation.Operation, now time.Time) string {
	rows := [][]Cell{}
	for _, o := range list {
		end := o.Times.Ended
		if end.IsZero() {
			end = now
		}
		away := ""
		if !o.Outage.From.IsZero() {
			until := o.Outage.Until
			if until.IsZero() {
				until = end
			}
			away = format.Ago(until.Sub(o.Outage.From))
		}
		rows = append(rows, []Cell{
			C(format.Short(o.ID)), C(strings.ToLower(string(o.Kind))), T(string(o.Phase), phaseTone(o.Phase)), C(format.Arrow(o.From, o.To)),
			C(fmt.Sprint(o.Call.Number)), C(clock(o.Times.Created)), C(format.Ago(end.Sub(o.Times.Created))), C(away), C(o.Reason),
		})
	}
	return s.Table([]string{"OPERATION", "ACTION", "PHASE", "REVISION", "CALLS", "STARTED", "TOOK", "AWAY", "REASON"}, rows)
}

func phaseTone(p operation.Phase) Tone {
	switch p {
	case operation.Done:
		return Good
	case operation.Failed:
		return Bad
	case operation.Aborted:
		return Dim
	case operation.Draining, operation.Drained, operation.Acting, operation.Booting, operation.Joining, operation.Settling:
	}
	return Warn
}

func admissions(s Style, list []client.Decision) string {
	rows := [][]Cell{}
	for _, d := range list {
		verdict, at, text := Cell{"admitted", Good}, clock(d.AdmittedAt), "revision "+format.Short(d.Revision)
		if d.Code != "" {
			verdict, text = Cell{"refused", Bad}, string(d.Code)+": "+d.Message
			if t, err := time.Parse(time.RFC3339Nano, d.At); err == nil {
				at = clock(t)
			}
		}
		rows = append(rows, []Cell{C(at), verdict, C(format.Short(d.BootID)), C(format.Short(d.InstanceID)), C(d.By), C(text)})
	}
	return s.Table([]string{"AT", "VERDICT", "BOOT", "INSTANCE", "BY", "WHAT"}, rows)
}

// Cluster joins the coordinators' answer with the platform's list. info is nil when no coordinator
// answered, cvms nil when the platform was not asked.
func Cluster(s Style, c client.Context, info *apiv1.GetClusterResponse, cvms []platform.Instance) string {
	fields := []Field{{"cluster", Cell{c.Cluster, Bold}}}
	if info != nil {
		leader := Cell{info.GetLeader(), Good}
		if leader.Text == "" {
			leader = Cell{"no coordinator holds the lease: nothing is changed until one does", Bad}
		}
		fields = append(fields, Field{"leader", leader}, Field{"term", Cell{fmt.Sprint(info.GetTerm()), Plain}},
			Field{"answered by", Cell{info.GetSelf() + ", version " + info.GetVersion(), Plain}})
		if info.GetSimulated() {
			fields = append(fields, Field{"root of trust", Cell{"SIMULATED: evidence is not signed by hardware", Warn}})
		}
	} else {
		fields = append(fields, Field{"leader", Cell{"unknown: no coordinator answers", Bad}})
	}
	fields = append(fields, Field{"cluster ID", Cell{c.ClusterID, Plain}}, Field{"app id", Cell{c.CoordinatorAppID, Plain}}, Field{"gateway", Cell{c.Gateway.Domain, Plain}})
	text := s.Fields(fields...)
	if cvms != nil {
		text += "\n" + CVMs(s, cvms)
	}
	return text
}

// CVMs is the platform's own list.
func CVMs(s Style, list []platform.Instance) string {
	if len(list) == 0 {
		return "the platform lists no CVM\n"
	}
	rows := [][]Cell{}
	for _, i := range list {
		tone, status := Good, i.Status
		if !i.Running() {
			tone = Warn
		}
		if i.InProgress {
			status += ", busy"
		}
		if i.BootError != "" {
			tone = Bad
		}
		rows = append(rows, []Cell{C(i.Name), T(status, tone), C(format.Short(i.ComposeHash)), C(format.Short(i.InstanceID)), C(i.OSImage), C(i.Node), C(i.VMUUID), C(i.BootError)})
	}
	return s.Table([]string{"CVM", "STATUS", "COMPOSE", "INSTANCE", "IMAGE", "NODE", "VM UUID", "BOOT ERROR"}, rows)
}
