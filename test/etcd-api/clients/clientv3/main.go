// clientv3 with its concurrency recipes. Each command on standard input runs one phase, and is answered with a line of
// JSON: the checks of the phase, or an Error. Between `hold` and `release` the server is restarted.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/clientv3util"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/namespace"
)

const (
	prefix     = "/locks/"
	sessionTTL = 30
	counter    = prefix + "counter"
)

type check struct {
	What string
	Ok   bool
	Seen string
}

type judge struct {
	client, other   *clientv3.Client
	one, two        *concurrency.Session
	mutex           *concurrency.Mutex
	election        *concurrency.Election
	checks          []check
	watched         []string
	watchError      error
	lock            sync.Mutex
	isOver          atomic.Bool
	working, follow sync.WaitGroup
	stopWatch       context.CancelFunc
}

func (j *judge) check(what string, ok bool, seen any) {
	j.checks = append(j.checks, check{what, ok, fmt.Sprint(seen)})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	time.AfterFunc(limit, cancel)
	return ctx
}

func connect(endpoint string) *clientv3.Client {
	return must(clientv3.New(clientv3.Config{
		Endpoints:            []string{endpoint},
		DialTimeout:          10 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	}))
}

func (j *judge) increment(client *clientv3.Client) error {
	_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
		n, _ := strconv.Atoi(stm.Get(counter))
		stm.Put(counter, strconv.Itoa(n+1))
		return nil
	}, concurrency.WithAbortContext(within(10*time.Second)))
	return err
}

func (j *judge) get(key string) string {
	answer := must(j.client.Get(within(20*time.Second), key))
	if len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// Everything that takes one connection and no time.
func (j *judge) calls() {
	ctx := within(60 * time.Second)
	endpoint := j.client.Endpoints()
	err := j.client.Sync(ctx)
	j.check("a client that syncs its endpoints stays here", err == nil && fmt.Sprint(j.client.Endpoints()) == fmt.Sprint(endpoint), fmt.Sprint(err, j.client.Endpoints()))
	must(j.client.Put(ctx, prefix+"a", "1"))
	txn := must(j.client.Txn(ctx).If(clientv3util.KeyMissing(prefix + "a")).Then(clientv3.OpPut(prefix+"a", "2")).Else(clientv3.OpGet(prefix + "a")).Commit())
	j.check("a transaction takes its other branch", !txn.Succeeded && string(txn.Responses[0].GetResponseRange().Kvs[0].Value) == "1", txn)
	spaced := namespace.NewKV(j.client.KV, prefix)
	answer := must(spaced.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1)))
	j.check("a namespaced get has the key without its prefix", len(answer.Kvs) == 1 && string(answer.Kvs[0].Key) == "a", answer)
	_, err = j.client.Get(ctx, prefix+"a", clientv3.WithRev(answer.Header.Revision+1_000_000))
	j.check("a future revision has the error of etcd", errors.Is(err, rpctypes.ErrFutureRev), err)
	lease := must(j.client.Grant(ctx, 60))
	must(j.client.Put(ctx, prefix+"leased", "x", clientv3.WithLease(lease.ID)))
	left := must(j.client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))
	j.check("a lease shows its keys", len(left.Keys) == 1 && left.GrantedTTL == 60, left)
	must(j.client.Revoke(ctx, lease.ID))
	j.check("a revoked lease takes its key with it", j.get(prefix+"leased") == "", "")
	_, err = j.client.KeepAliveOnce(ctx, lease.ID)
	j.check("a lease that is gone has the error of etcd", errors.Is(err, rpctypes.ErrLeaseNotFound), err)
	syncer := mirror.NewSyncer(j.client, prefix, 0)
	pages, failures := syncer.SyncBase(ctx)
	copied := 0
	for page := range pages {
		copied += len(page.Kvs)
	}
	j.check("a mirror copies the prefix", copied > 0 && <-failures == nil, copied)
}

func (j *judge) stm() {
	var group sync.WaitGroup
	var failed atomic.Int64
	for _, client := range []*clientv3.Client{j.client, j.other, j.client, j.other} {
		group.Go(func() {
			for range 25 {
				if j.increment(client) != nil {
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	j.check("four writers with STM lose no increment", failed.Load() == 0 && j.get(counter) == "100", j.get(counter))
}

func (j *judge) recipes() {
	j.one = must(concurrency.NewSession(j.client, concurrency.WithTTL(sessionTTL)))
	j.two = must(concurrency.NewSession(j.other, concurrency.WithTTL(sessionTTL)))
	j.mutex = concurrency.NewMutex(j.one, prefix+"mutex")
	err := j.mutex.Lock(within(20 * time.Second))
	j.check("a session locks a mutex", err == nil, err)
	err = concurrency.NewMutex(j.two, prefix+"mutex").TryLock(within(20 * time.Second))
	j.check("another one does not get it", errors.Is(err, concurrency.ErrLocked), err)
	j.election = concurrency.NewElection(j.one, prefix+"election")
	err = j.election.Campaign(within(20*time.Second), "one")
	j.check("a candidate is elected", err == nil, err)
	leader, err := concurrency.NewElection(j.two, prefix+"election").Leader(within(20 * time.Second))
	j.check("the others see the leader", err == nil && string(leader.Kvs[0].Value) == "one", err)
}

// Starts a watch, writers, and waiters for the lock and the election, which all go on while the server restarts.
func (j *judge) hold() {
	ctx, stop := context.WithCancel(context.Background())
	j.stopWatch = stop
	created := make(chan struct{})
	j.follow.Go(func() {
		isFirst := true
		for answer := range j.other.Watch(clientv3.WithRequireLeader(ctx), counter, clientv3.WithCreatedNotify(), clientv3.WithPrevKV()) {
			if isFirst {
				close(created)
				isFirst = false
			}
			j.lock.Lock()
			if answer.Err() != nil {
				j.watchError = answer.Err()
			}
			for _, event := range answer.Events {
				j.watched = append(j.watched, string(event.Kv.Value))
			}
			j.lock.Unlock()
		}
	})
	<-created
	j.working.Go(func() {
		for !j.isOver.Load() {
			j.increment(j.client) // its error is that nobody answered
			time.Sleep(10 * time.Millisecond)
		}
	})
	time.Sleep(200 * time.Millisecond)
	j.check("the writer works before the restart", j.get(counter) != "100", j.get(counter))
}

func (j *judge) release() {
	time.Sleep(time.Second)
	j.isOver.Store(true)
	j.working.Wait()
	last := j.get(counter)
	for range 200 {
		j.lock.Lock()
		isThere := len(j.watched) > 0 && j.watched[len(j.watched)-1] == last
		j.lock.Unlock()
		if isThere {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	j.stopWatch()
	j.follow.Wait()
	isWhole := len(j.watched) > 0 && j.watched[len(j.watched)-1] == last
	for i, value := range j.watched {
		isWhole = isWhole && value == strconv.Itoa(101+i)
	}
	j.check("a watch through the restart has every value once, in order", isWhole && j.watchError == nil, fmt.Sprint(len(j.watched), " to ", last, j.watchError))
	for _, session := range []*concurrency.Session{j.one, j.two} {
		select {
		case <-session.Done():
			j.check("a session survives the restart", false, "done")
		default:
			_, err := j.client.KeepAliveOnce(within(20*time.Second), session.Lease())
			j.check("a session survives the restart", err == nil, err)
		}
	}
	owner := must(j.client.Txn(within(20 * time.Second)).If(j.mutex.IsOwner()).Commit())
	j.check("the mutex is still held", owner.Succeeded, "")
	waiter := concurrency.NewMutex(j.two, prefix+"mutex")
	got := make(chan error, 1)
	go func() { got <- waiter.Lock(within(20 * time.Second)) }()
	time.Sleep(200 * time.Millisecond)
	must(0, j.mutex.Unlock(within(20*time.Second)))
	err := <-got
	j.check("a waiter gets the mutex when it is unlocked", err == nil, err)
	follower := concurrency.NewElection(j.two, prefix+"election")
	go func() { got <- follower.Campaign(within(20*time.Second), "two") }()
	time.Sleep(200 * time.Millisecond)
	must(0, j.election.Resign(within(20*time.Second)))
	err = <-got
	leader, lead := follower.Leader(within(20 * time.Second))
	j.check("the follower is elected when the leader resigns", err == nil && lead == nil && string(leader.Kvs[0].Value) == "two", err)
	must(0, j.two.Close())
	j.check("a closed session takes its keys with it", j.get(waiter.Key()) == "", "")
}

func (j *judge) run(command string) (answer any) {
	defer func() {
		if problem := recover(); problem != nil {
			answer = map[string]string{"Error": fmt.Sprint(problem)}
		}
	}()
	j.checks = nil
	switch command {
	case "calls":
		j.calls()
	case "stm":
		j.stm()
	case "recipes":
		j.recipes()
	case "hold":
		j.hold()
	case "release":
		j.release()
	default:
		panic("unknown command " + command)
	}
	return j.checks
}

func main() {
	endpoint := os.Args[1]
	j := &judge{client: connect(endpoint), other: connect(endpoint)}
	out := json.NewEncoder(os.Stdout)
	out.Encode("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		out.Encode(j.run(lines.Text()))
	}
}
