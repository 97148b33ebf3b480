/* A client of corosync's closed process groups and of our control socket: the same for both, so
 * that the daemons are compared and not the languages of their clients.
 *
 *   client flood SIZE WINDOW            keeps WINDOW messages of its own undelivered, for ever
 *   client probe SIZE RATE COUNT        sends COUNT messages at RATE a second, one at a time
 *   client pace SIZE RATE COUNT         sends COUNT messages at random times, RATE a second
 *   client say RATE COUNT FD NUMBER HEX sends a frame to a daemon of ours, with message numbers
 *                                       from NUMBER on, and waits for each delivery
 *   client chance RATE COUNT FD NUMBER HEX  the same at random times, waiting for nothing
 *   client batches RATE COUNT FD NUMBER HEX  as chance, but looks 1500 times a second for what is
 *                                       due, and sends it in frames of several messages
 *
 * One line a fact: "view T N1 N2 ..." with the nodes of each configuration, "flows T" when a flood
 * has begun to be delivered, "delivered T N" every second of a flood, "took T D" for each probe, D
 * from the moment at which it was due. Times are microseconds of CLOCK_MONOTONIC.
 */
#define _GNU_SOURCE
#include <corosync/cpg.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SIZE_MAX_BYTES = 1 << 20, SECOND = 1000000, LOOK = SECOND / 1500 };

static uint32_t my_node;
static uint32_t my_pid;
static long own_delivered;
static long all_delivered;

static long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * (long)SECOND + at.tv_nsec / 1000;
}

static void sleep_until(long at) {
    struct timespec until = {at / SECOND, at % SECOND * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static void fail(const char *what, cs_error_t error) {
    fprintf(stderr, "%s: error %d\n", what, error);
    exit(1);
}

static void on_message(cpg_handle_t handle, const struct cpg_name *group, uint32_t node,
                       uint32_t pid, void *message, size_t length) {
    (void)handle, (void)group, (void)message, (void)length;
    all_delivered++;
    own_delivered += node == my_node && pid == my_pid;
}

static void on_view(cpg_handle_t handle, const struct cpg_name *group,
                    const struct cpg_address *members, size_t members_count,
                    const struct cpg_address *left, size_t left_count,
                    const struct cpg_address *joined, size_t joined_count) {
    (void)handle, (void)group, (void)left, (void)left_count, (void)joined, (void)joined_count;
    printf("view %ld", now());
    for (size_t i = 0; i < members_count; i++) {
        printf(" %u", members[i].nodeid);
    }
    printf("\n");
    fflush(stdout);
}

/* The daemon may still be starting. */
static cpg_handle_t connected(void) {
    cpg_callbacks_t callbacks = {on_message, on_view};
    struct cpg_name group = {5, "bench"};
    cpg_handle_t handle;
    cs_error_t error = CS_OK;
    for (int attempt = 0; attempt < 600; attempt++) {
        error = cpg_initialize(&handle, &callbacks);
        if (error == CS_OK) {
            break;
        }
        sleep_until(now() + 20000);
    }
    if (error != CS_OK) {
        fail("cpg_initialize", error);
    }
    do {
        error = cpg_join(handle, &group);
        if (error == CS_ERR_TRY_AGAIN) {
            sleep_until(now() + 5000);
        }
    } while (error == CS_ERR_TRY_AGAIN);
    if (error != CS_OK) {
        fail("cpg_join", error);
    }
    cpg_local_get(handle, &my_node);
    my_pid = (uint32_t)getpid();
    return handle;
}

static void dispatch(cpg_handle_t handle) {
    cs_error_t error = cpg_dispatch(handle, CS_DISPATCH_ALL);
    if (error != CS_OK && error != CS_ERR_TRY_AGAIN) {
        fail("cpg_dispatch", error);
    }
}

static int sent(cpg_handle_t handle, char *message, size_t size) {
    struct iovec piece = {message, size};
    cs_error_t error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &piece, 1);
    if (error != CS_OK && error != CS_ERR_TRY_AGAIN) {
        fail("cpg_mcast_joined", error);
    }
    return error == CS_OK;
}

static void flood(cpg_handle_t handle, struct pollfd *ready, size_t size, long window) {
    static char message[SIZE_MAX_BYTES];
    long submitted = 0;
    long told_at = now();
    int flows = 0;
    for (;;) {
        int refused = 0;
        while (submitted - own_delivered < window && !refused) {
            refused = !sent(handle, message, size);
            submitted += !refused;
        }
        poll(ready, 1, refused ? 1 : 100);
        dispatch(handle);
        if (!flows && own_delivered > 2 * window) {
            flows = 1;
            printf("flows %ld\n", now());
            fflush(stdout);
        }
        if (now() - told_at > SECOND) {
            told_at = now();
            printf("delivered %ld %ld\n", told_at, all_delivered);
            fflush(stdout);
        }
    }
}

static void told(long due) {
    printf("took %ld %ld\n", due, now() - due);
}

static void probe(cpg_handle_t handle, struct pollfd *ready, size_t size, long rate, long count) {
    static char message[SIZE_MAX_BYTES];
    long due = now() + SECOND / 10;
    for (long number = 1; number <= count; number++, due += SECOND / rate) {
        sleep_until(due);
        while (!sent(handle, message, size)) {
            poll(ready, 1, 1);
            dispatch(handle);
        }
        while (own_delivered < number) {
            poll(ready, 1, 1000);
            dispatch(handle);
        }
        told(due);
    }
    fflush(stdout);
}

/* When messages are due that come by chance, and which of them were sent and delivered. */
struct chance {
    long *due;
    long count, sent, delivered;
};

static struct chance chances(long rate, long count) {
    struct chance plan = {calloc((size_t)count, sizeof(long)), count, 0, 0};
    unsigned short seed[3] = {7, 11, (unsigned short)getpid()};
    double at = (double)now() + SECOND / 10.0;
    for (long number = 0; number < count; number++) {
        at += -log(1.0 - erand48(seed)) * SECOND / (double)rate;
        plan.due[number] = (long)at;
    }
    return plan;
}

static int is_due(const struct chance *plan) {
    return plan->sent < plan->count && now() >= plan->due[plan->sent];
}

/* How long until the next message is due, but no sooner than `look`. */
static struct timespec until_due(const struct chance *plan, long look) {
    long due = plan->sent < plan->count ? plan->due[plan->sent] : look + SECOND;
    long wait = (due > look ? due : look) - now();
    wait = wait > 0 ? wait : 0;
    return (struct timespec){wait / SECOND, wait % SECOND * 1000};
}

static void deliver_until(struct chance *plan, long delivered) {
    long at = now();
    for (; plan->delivered < delivered && plan->delivered < plan->sent; plan->delivered++) {
        long due = plan->due[plan->delivered];
        printf("took %ld %ld\n", due, at - due);
    }
}

static void pace(cpg_handle_t handle, struct pollfd *ready, size_t size, long rate, long count) {
    static char message[SIZE_MAX_BYTES];
    struct chance plan = chances(rate, count);
    while (plan.delivered < count) {
        int refused = 0;
        while (is_due(&plan) && !refused) {
            refused = !sent(handle, message, size);
            plan.sent += !refused;
        }
        if (refused) {
            poll(ready, 1, 1);
        } else {
            struct timespec most = until_due(&plan, 0);
            ppoll(ready, 1, &most, NULL);
        }
        dispatch(handle);
        deliver_until(&plan, own_delivered);
    }
    fflush(stdout);
}

static void expect(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

/* Frames of evensong's sessions: length:u32 opcode:u8 request:u32, big-endian, then the body. */
enum { HEAD = 9, CONSUMED = 6, DELIVER = 131 };
enum { NUMBER_AT = HEAD + 6, PLACES_AT = HEAD + 18, CONTENT_AT = HEAD + 20, BODY_AT = HEAD + 24 };
enum { FLAGS_AT = HEAD + 40, OWN = 2, TOLD_PLACES_AT = HEAD + 59, LENGTH_AT = HEAD + 61 };
enum { FRAME_MAX_BYTES = 57400 }; /* of the messages that a frame of several holds */
enum { TOLD_AT = 1 << 18 }; /* bytes: the daemon wants to know at a quarter of 4 MiB */

static size_t u16_at(const unsigned char *at) {
    return (size_t)at[0] << 8 | (size_t)at[1];
}

static size_t u32_at(const unsigned char *at) {
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | (size_t)at[3];
}

static size_t is_whole(const unsigned char *frame, size_t there) {
    if (there < HEAD) {
        return 0;
    }
    size_t length = HEAD + u32_at(frame);
    return there >= length ? length : 0;
}

static int is_own(const unsigned char *frame) {
    return frame[4] == DELIVER && frame[FLAGS_AT] & OWN;
}

/* How much of a frame is left out, since we sent it ourselves; it counts as if it had come. */
static size_t left_out(const unsigned char *frame) {
    return is_own(frame) ? u32_at(frame + LENGTH_AT) : 0;
}

/* Say how much has been consumed, now and then; else the daemon holds back what comes. */
static void consume(int stream, size_t length) {
    static size_t consumed;
    consumed += length;
    if (consumed < TOLD_AT) {
        return;
    }
    unsigned char said[HEAD + 8] = {[3] = 8, [4] = CONSUMED};
    for (int at = 0; at < 8; at++) {
        said[HEAD + at] = (unsigned char)(consumed >> 8 * (7 - at));
    }
    expect(write(stream, said, sizeof said) == (ssize_t)sizeof said, "write");
    consumed = 0;
}

/* Read what has come; return how many messages of our own are in it. */
static long deliveries(int stream) {
    static unsigned char heard[SIZE_MAX_BYTES];
    static size_t there;
    ssize_t more = read(stream, heard + there, sizeof heard - there);
    expect(more > 0, "read");
    there += (size_t)more;
    long delivered = 0;
    size_t at = 0, length;
    while ((length = is_whole(heard + at, there - at)) > 0) {
        delivered += is_own(heard + at) ? (long)u16_at(heard + at + TOLD_PLACES_AT) : 0;
        consume(stream, length + left_out(heard + at));
        at += length;
    }
    there -= at;
    memmove(heard, heard + at, there);
    return delivered;
}

static unsigned char frame[SIZE_MAX_BYTES];
static size_t frame_length;

static void read_frame(const char *hex) {
    frame_length = strlen(hex) / 2;
    expect(frame_length > NUMBER_AT + 8 && frame_length <= sizeof frame, "frame");
    for (size_t at = 0; at < frame_length; at++) {
        expect(sscanf(hex + 2 * at, "%2hhx", &frame[at]) == 1, "hex");
    }
}

static void put(unsigned char *at, int bytes, long value) {
    while (bytes--) {
        *at++ = (unsigned char)(value >> 8 * bytes);
    }
}

static void send_frame(int stream, long number) {
    put(frame + NUMBER_AT, 8, number);
    expect(write(stream, frame, frame_length) == (ssize_t)frame_length, "write");
}

/* As many messages as a frame of several holds: each takes its length, and itself. */
static long frame_holds(void) {
    long most = FRAME_MAX_BYTES / (long)(2 + frame_length - BODY_AT);
    return most > 1 ? most : 1;
}

/* Send so many messages in one frame: a table of their lengths, then the messages. */
static void send_several(int stream, long number, long count) {
    static unsigned char several[BODY_AT + FRAME_MAX_BYTES];
    long size = (long)frame_length - BODY_AT;
    long content = count * (2 + size);
    if (count == 1) {
        send_frame(stream, number);
        return;
    }
    memcpy(several, frame, BODY_AT);
    put(several, 4, BODY_AT - HEAD + content);
    put(several + NUMBER_AT, 8, number);
    put(several + PLACES_AT, 2, count);
    put(several + CONTENT_AT, 4, content);
    for (long at = 0; at < count; at++) {
        put(several + BODY_AT + 2 * at, 2, size);
    }
    expect(write(stream, several, (size_t)(BODY_AT + content)) == BODY_AT + content, "write");
}

static void say(long rate, long count, int stream, long number) {
    struct pollfd ready = {.fd = stream, .events = POLLIN};
    long due = now() + SECOND / 10;
    for (long last = number + count; number < last; number++, due += SECOND / rate) {
        sleep_until(due);
        send_frame(stream, number);
        do {
            expect(poll(&ready, 1, -1) == 1, "poll");
        } while (!deliveries(stream));
        told(due);
    }
    fflush(stdout);
}

/* The daemon may be behind; what is due waits then, and its time counts. */
static int has_room(int stream) {
    struct pollfd ready = {.fd = stream, .events = POLLOUT};
    return poll(&ready, 1, 0) == 1;
}

/* How many messages are due that one frame holds. */
static long due_together(const struct chance *plan, long most) {
    long at = now(), count = 0;
    while (count < most && plan->sent + count < plan->count && at >= plan->due[plan->sent + count]) {
        count++;
    }
    return count;
}

/* Send what is due, so many messages at most in a frame, looking for it every `tick`. */
static void chance_of(struct chance *plan, int stream, long number, long most, long tick) {
    struct pollfd ready = {.fd = stream};
    long look = 0;
    while (plan->delivered < plan->count) {
        int is_full = 0;
        long count;
        if (now() >= look) {
            while ((count = due_together(plan, most)) > 0 && !(is_full = !has_room(stream))) {
                send_several(stream, number + plan->sent, count);
                plan->sent += count;
            }
            look = is_full ? look : now() + tick;
        }
        struct timespec wait = is_full ? (struct timespec){1, 0} : until_due(plan, look);
        ready.events = is_full ? POLLIN | POLLOUT : POLLIN;
        if (ppoll(&ready, 1, &wait, NULL) == 1 && ready.revents & POLLIN) {
            deliver_until(plan, plan->delivered + deliveries(stream));
        }
    }
    fflush(stdout);
}

static void chance(long rate, long count, int stream, long number) {
    struct chance plan = chances(rate, count);
    chance_of(&plan, stream, number, 1, 0);
}

static void batches(long rate, long count, int stream, long number) {
    struct chance plan = chances(rate, count);
    chance_of(&plan, stream, number, frame_holds(), LOOK);
}

static int is_asked(int count, char **words, int wanted, const char *what) {
    return count == wanted && strcmp(words[1], what) == 0;
}

int main(int count, char **words) {
    int is_say = is_asked(count, words, 7, "say");
    int is_batches = is_asked(count, words, 7, "batches");
    if (is_say || is_batches || is_asked(count, words, 7, "chance")) {
        read_frame(words[6]);
        void (*speak)(long, long, int, long) = is_say ? say : is_batches ? batches : chance;
        speak(atol(words[2]), atol(words[3]), atoi(words[4]), atol(words[5]));
        return 0;
    }
    int is_pace = is_asked(count, words, 5, "pace");
    int is_flood = is_asked(count, words, 4, "flood");
    int is_probe = is_asked(count, words, 5, "probe");
    if ((!is_flood && !is_probe && !is_pace) || atol(words[2]) < 1 || atol(words[2]) > SIZE_MAX_BYTES) {
        fprintf(stderr, "usage: client flood SIZE WINDOW | client probe SIZE RATE COUNT | "
                        "client pace SIZE RATE COUNT | client chance ... | "
                        "client batches ... | client say RATE COUNT FD NUMBER HEX\n");
        return 2;
    }
    size_t size = (size_t)atol(words[2]);
    cpg_handle_t handle = connected();
    struct pollfd ready = {.events = POLLIN};
    cpg_fd_get(handle, &ready.fd);
    if (is_pace) {
        pace(handle, &ready, size, atol(words[3]), atol(words[4]));
    } else if (is_flood) {
        flood(handle, &ready, size, atol(words[3]));
    } else {
        probe(handle, &ready, size, atol(words[3]), atol(words[4]));
    }
    return 0;
}
