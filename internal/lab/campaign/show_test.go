package campaign

import "testing"

func TestASeedDrawsTheSamePlan(t *testing.T) {
	kinds := map[Deed]int{}
	for seed := range uint64(200) {
		a, b := Draw(seed, 60).String(), Draw(seed, 60).String()
		if a != b {
			t.Fatalf("two plans of seed %d differ:\n%s\n%s", seed, a, b)
		}
		if a, b := DrawNodes(seed, 60).String(), DrawNodes(seed, 60).String(); a != b {
			t.Errorf("seed %d draws two schedules for nodes", seed)
		}
		if a, b := DrawApart(seed, 60).String(), DrawApart(seed, 60).String(); a != b {
			t.Errorf("seed %d draws two schedules for roles apart", seed)
		}
		for _, s := range Draw(seed, 60).Steps {
			kinds[s.Do]++
		}
	}
	for _, do := range []Deed{
		Send, SendAgain, Recall, Cancel, Read, Restart, Crash, CrashHand, CrashAck, Leave, Return, Reinstall, Keep, RollBack, Clone, Unclone,
		Refuse, Accept, Net, CutIt, Kill, Drain, Backup, Restore, Raise, Join, Part, Look, Resend, Batch, Collide, Early, AckBack, AckFar,
		Mute, Quiet, Stuck, Unheard, Rest,
	} {
		if kinds[do] == 0 {
			t.Errorf("%s is never drawn", do)
		}
	}
}
