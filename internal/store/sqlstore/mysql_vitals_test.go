package sqlstore

import (
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/store"
)

func TestMySQLTellsThatCommitsWaitForAReplicaThatIsGone(t *testing.T) {
	needMySQL(t)
	t.Parallel()
	ctx := t.Context()
	primary := startMySQL(t, mysql.Options{Settings: mysql.Primary()})
	if err := primary.CreateDatabase(ctx, "im"); err != nil {
		t.Fatal(err)
	}
	replica, err := primary.Replica(ctx, mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Close() })
	w := openPgWorld(t, primary.DSN("im"), Options{})
	w.group("c", "ana")
	if v, err := w.Vitals(ctx); err != nil || v.Standby != (store.Standby{}) {
		t.Errorf("where no commit waits: %+v, %v", v, err)
	}
	if err := primary.Synchronous(ctx); err != nil {
		t.Fatal(err)
	}
	w.sends(w.msg("ana", "c", "1", "hi"))
	v, err := w.Vitals(ctx)
	if err != nil || v.Names == "" || v.Connected != 1 || v.Waiting != 0 {
		t.Errorf("with a replica: %+v, %v", v, err)
	}
	if off := v.Asked.Sub(time.UnixMilli(int64(v.Now))); off.Abs() > v.Took+time.Second {
		t.Errorf("the clock is %v off", off)
	}
	if err := replica.Kill(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan store.Appended, 1)
	waiting := w.msg("ana", "c", "2", "hi")
	go func() { answered <- w.Append(ctx, []store.Append{waiting})[0] }()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for overdue := time.Now().Add(20 * time.Second); ; <-every.C {
		if v, err = w.Vitals(ctx); err == nil && v.Waiting > 0 && v.Longest >= time.Second && v.Connected == 0 {
			break
		}
		if time.Now().After(overdue) {
			t.Fatalf("without a replica: %+v, %v", v, err)
		}
	}
	if err := primary.Set(ctx, map[string]string{"rpl_semi_sync_master_enabled": "OFF"}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answered:
		if got.Err != nil {
			t.Errorf("what had waited got %v", got.Err)
		}
	case <-time.After(20 * time.Second):
		t.Error("what had waited is not answered")
	}
}
