package api_test

import (
	"context"
	"net/http"
	"testing"

	apiclient "github.com/spout-queue/spout/cmd/admin/internal/api/testdata/openapi/client"
)

// The tour of docs/api.md with a client that a stock generator made of the description. See testdata/openapi.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	c, err := apiclient.NewClientWithResponses(s.server.URL, apiclient.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set(personHeader, "admin")
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	tour := &generatedTour{t: t, c: c}
	tour.submit()
	tour.operate()
	tour.remove()
}

type generatedTour struct {
	t *testing.T
	c *apiclient.ClientWithResponses
}

// answered fails the test unless a call was answered with a status; what it says otherwise is in the error.
func answered[A interface{ StatusCode() int }](t *testing.T, status int) func(A, error) A {
	t.Helper()
	return func(answer A, err error) A {
		t.Helper()
		if err != nil || answer.StatusCode() != status {
			t.Fatalf("%T: %d, want %d: %v", answer, answer.StatusCode(), status, err)
		}
		return answer
	}
}

func (g *generatedTour) job(id string) apiclient.Job {
	return apiclient.Job{Class: "tour", Key: "tenant-42", Id: &id, Payload: map[string]string{"url": "https://api.github.com/zen"}}
}

func (g *generatedTour) submit() {
	t, ctx := g.t, g.t.Context()
	t.Helper()
	class := apiclient.ClassPut{Capacity: 2, Rate: "1/1h", Retention: new("1h")}
	put := answered[*apiclient.PutClassesByClassResponse](t, 201)(g.c.PutClassesByClassWithResponse(ctx, "tour", nil, class))
	if put.JSON201 == nil || put.JSON201.Change != "new" {
		t.Errorf("stored: %s", put.Body)
	}
	first := answered[*apiclient.SubmitResponse](t, 202)(g.c.SubmitWithResponse(ctx, nil, g.job("invoice-7"))).JSON202
	if first.Id != "invoice-7" || first.Status != "admitted" || first.Position != 1 || first.EstimatedStart.IsZero() {
		t.Errorf("the receipt is %+v", first)
	}
	state := answered[*apiclient.GetJobsByRefResponse](t, 200)(g.c.GetJobsByRefWithResponse(ctx, first.Ref)).JSON200
	if state.Ref != first.Ref || state.State != "line" {
		t.Errorf("the job is %+v", state)
	}
	both := apiclient.Batch{Jobs: []apiclient.Job{g.job("invoice-8"), g.job("invoice-9")}}
	many := answered[*apiclient.SubmitBatchResponse](t, 200)(g.c.SubmitBatchWithResponse(ctx, both)).JSON200.Results
	if len(many) != 2 || many[0].Status != "admitted" || many[1].Status != "rejected" || *many[1].Reason != "full" {
		t.Errorf("the batch is answered %+v", many)
	}
	full := answered[*apiclient.SubmitResponse](t, 429)(g.c.SubmitWithResponse(ctx, nil, g.job("invoice-10")))
	if no := full.ApplicationproblemJSON429; no.Reason != "full" || *no.Level != 2 || *no.RetryAfterMs <= 0 || full.HTTPResponse.Header.Get("Retry-After") == "" {
		t.Errorf("full: %s", full.Body)
	}
}

func (g *generatedTour) operate() {
	t, ctx := g.t, g.t.Context()
	t.Helper()
	bucket := answered[*apiclient.GetClassesByClassBucketsByKeyResponse](t, 200)(
		g.c.GetClassesByClassBucketsByKeyWithResponse(ctx, "tour", "tenant-42")).JSON200
	if bucket.Level != 2 || bucket.Capacity != 2 {
		t.Errorf("the bucket is %+v", bucket)
	}
	line := answered[*apiclient.GetJobsResponse](t, 200)(
		g.c.GetJobsWithResponse(ctx, &apiclient.GetJobsParams{Class: "tour", Key: new("tenant-42")})).JSON200.Items
	if len(line) != 2 || line[0].Id != "invoice-7" {
		t.Errorf("the line is %+v", line)
	}
	held := answered[*apiclient.PostClassesByClassBucketsByKeyHoldResponse](t, 200)(
		g.c.PostClassesByClassBucketsByKeyHoldWithResponse(ctx, "tour", "tenant-42", apiclient.Hold{For: new("90s")})).JSON200
	if held.Hold == nil || *held.HoldReason != "an operator" {
		t.Errorf("held: %+v", held)
	}
	answered[*apiclient.PostClassesByClassBucketsByKeyUnholdResponse](t, 200)(g.c.PostClassesByClassBucketsByKeyUnholdWithResponse(ctx, "tour", "tenant-42"))
}

func (g *generatedTour) remove() {
	t, ctx := g.t, g.t.Context()
	t.Helper()
	asked := answered[*apiclient.PostClassesByClassPurgeResponse](t, 428)(
		g.c.PostClassesByClassPurgeWithResponse(ctx, "tour", nil)).ApplicationproblemJSON428
	purged := answered[*apiclient.PostClassesByClassPurgeResponse](t, 200)(
		g.c.PostClassesByClassPurgeWithResponse(ctx, "tour", &apiclient.PostClassesByClassPurgeParams{Confirm: asked.Confirm})).JSON200
	if *asked.Confirm != "2" || purged.Purged != 2 {
		t.Errorf("asked %+v, purged %+v", asked, purged)
	}
	answered[*apiclient.DeleteClassesByClassResponse](t, 200)(
		g.c.DeleteClassesByClassWithResponse(ctx, "tour", &apiclient.DeleteClassesByClassParams{Confirm: new("0")}))
	log := answered[*apiclient.GetChangesResponse](t, 200)(g.c.GetChangesWithResponse(ctx, nil)).JSON200.Items
	if len(log) == 0 || log[0].Action != "remove class" {
		t.Errorf("the log of changes is %+v", log)
	}
}
