// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated ConnectX-class RNIC: queue pairs and what belongs to them.
 *
 * They exist so far that the kernel's MAD and CM layers and their users run on
 * the port: what is sent completes and is lost, nothing is ever received.
 */
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "rnic.h"

struct rnic_cq {
	struct ib_cq ibcq;
	spinlock_t lock;
	struct list_head done;
	bool armed;
};

struct rnic_qp {
	struct ib_qp ibqp;
	spinlock_t lock;
	struct list_head receives;
	struct ib_qp_attr attr;
	bool flushing;
};

struct rnic_wr {
	struct list_head list;
	struct ib_wc wc;
};

struct rnic_pd {
	struct ib_pd ibpd;
};

struct rnic_ah {
	struct ib_ah ibah;
};

struct rnic_ucontext {
	struct ib_ucontext ibucontext;
};

static struct rnic_cq *to_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rnic_cq, ibcq);
}

static struct rnic_qp *to_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct rnic_qp, ibqp);
}

static void complete_wr(struct rnic_cq *cq, struct rnic_wr *wr)
{
	unsigned long flags;
	bool notify;

	spin_lock_irqsave(&cq->lock, flags);
	list_add_tail(&wr->list, &cq->done);
	notify = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

static void free_wrs(struct list_head *list)
{
	struct rnic_wr *wr, *next;

	list_for_each_entry_safe(wr, next, list, list)
		kfree(wr);
}

#if RNIC_KERNEL_6_12
static int rnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			  struct uverbs_attr_bundle *attrs)
#else
static int rnic_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			  struct ib_udata *udata)
#endif
{
	struct rnic_cq *cq = to_cq(ibcq);

	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->done);
	ibcq->cqe = attr->cqe;
	return 0;
}

static int rnic_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	free_wrs(&to_cq(ibcq)->done);
	return 0;
}

static int rnic_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc)
{
	struct rnic_cq *cq = to_cq(ibcq);
	struct rnic_wr *wr;
	unsigned long flags;
	int i = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (i < n && !list_empty(&cq->done)) {
		wr = list_first_entry(&cq->done, struct rnic_wr, list);
		list_del(&wr->list);
		wc[i++] = wr->wc;
		kfree(wr);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return i;
}

static int rnic_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags notify)
{
	struct rnic_cq *cq = to_cq(ibcq);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = (notify & IB_CQ_REPORT_MISSED_EVENTS) && !list_empty(&cq->done);
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

static int rnic_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	static atomic_t next_qpn = ATOMIC_INIT(0x100);
	struct rnic_qp *qp = to_qp(ibqp);

	if (udata || init->srq)
		return -EOPNOTSUPP;
	switch (init->qp_type) {
	case IB_QPT_GSI:
		ibqp->qp_num = 1;
		break;
	case IB_QPT_RC:
	case IB_QPT_UD:
		ibqp->qp_num = atomic_inc_return(&next_qpn) & 0xffffff;
		break;
	default:
		return -EOPNOTSUPP;
	}
	spin_lock_init(&qp->lock);
	INIT_LIST_HEAD(&qp->receives);
	qp->attr.qp_state = IB_QPS_RESET;
	qp->attr.cap = init->cap;
	return 0;
}

static void flush_qp(struct rnic_qp *qp)
{
	struct rnic_wr *wr, *next;
	unsigned long flags;
	LIST_HEAD(receives);

	spin_lock_irqsave(&qp->lock, flags);
	qp->flushing = true;
	list_splice_init(&qp->receives, &receives);
	spin_unlock_irqrestore(&qp->lock, flags);
	list_for_each_entry_safe(wr, next, &receives, list) {
		list_del(&wr->list);
		wr->wc.status = IB_WC_WR_FLUSH_ERR;
		complete_wr(to_cq(qp->ibqp.recv_cq), wr);
	}
}

static int rnic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	struct rnic_qp *qp = to_qp(ibqp);

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (mask & IB_QP_STATE)
		qp->attr.qp_state = attr->qp_state;
	if (mask & IB_QP_SQ_PSN)
		qp->attr.sq_psn = attr->sq_psn;
	if (mask & IB_QP_RQ_PSN)
		qp->attr.rq_psn = attr->rq_psn;
	if (mask & IB_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_ERR)
		flush_qp(qp);
	return 0;
}

static int rnic_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
			 struct ib_qp_init_attr *init)
{
	*attr = to_qp(ibqp)->attr;
	attr->port_num = 1;
	init->cap = attr->cap;
	return 0;
}

static int rnic_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	free_wrs(&to_qp(ibqp)->receives);
	return 0;
}

static int rnic_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad)
{
	struct rnic_qp *qp = to_qp(ibqp);

	for (; wr; wr = wr->next) {
		struct rnic_wr *done = kzalloc(sizeof(*done), GFP_ATOMIC);

		if (!done) {
			*bad = wr;
			return -ENOMEM;
		}
		done->wc.wr_cqe = wr->wr_cqe;
		done->wc.qp = ibqp;
		done->wc.opcode = IB_WC_SEND;
		done->wc.status = qp->flushing ? IB_WC_WR_FLUSH_ERR : IB_WC_SUCCESS;
		complete_wr(to_cq(ibqp->send_cq), done);
	}
	return 0;
}

static int rnic_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	struct rnic_qp *qp = to_qp(ibqp);
	unsigned long flags;
	bool flushing;

	for (; wr; wr = wr->next) {
		struct rnic_wr *r = kzalloc(sizeof(*r), GFP_ATOMIC);

		if (!r) {
			*bad = wr;
			return -ENOMEM;
		}
		r->wc.wr_cqe = wr->wr_cqe;
		r->wc.qp = ibqp;
		r->wc.opcode = IB_WC_RECV;
		r->wc.status = IB_WC_WR_FLUSH_ERR;
		spin_lock_irqsave(&qp->lock, flags);
		flushing = qp->flushing;
		if (!flushing)
			list_add_tail(&r->list, &qp->receives);
		spin_unlock_irqrestore(&qp->lock, flags);
		if (flushing)
			complete_wr(to_cq(ibqp->recv_cq), r);
	}
	return 0;
}

static int rnic_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int rnic_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int rnic_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	return 0;
}

static int rnic_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return 0;
}

static struct ib_mr *rnic_get_dma_mr(struct ib_pd *pd, int access)
{
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	return mr ? mr : ERR_PTR(-ENOMEM);
}

static struct ib_mr *rnic_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 virt, int access,
				      struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

/* Registered memory is never touched: enough for a kernel user to come as far as connecting. */
static struct ib_mr *rnic_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	static atomic_t next_key = ATOMIC_INIT(0x1000);
	struct ib_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG && type != IB_MR_TYPE_SG_GAPS)
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->lkey = atomic_add_return(0x100, &next_key);
	mr->rkey = mr->lkey;
	return mr;
}

static int rnic_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int sg_nents,
			  unsigned int *sg_offset)
{
	return sg_nents;
}

static int rnic_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	kfree(mr);
	return 0;
}

/* The verbs device node exists, as on a real host, but nobody can use it. */
static int rnic_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static void rnic_dealloc_ucontext(struct ib_ucontext *context)
{
}

static void rnic_disassociate_ucontext(struct ib_ucontext *context)
{
}

const struct ib_device_ops rnic_object_ops = {
	.alloc_mr = rnic_alloc_mr,
	.alloc_pd = rnic_alloc_pd,
	.alloc_ucontext = rnic_alloc_ucontext,
	.create_ah = rnic_create_ah,
	.create_cq = rnic_create_cq,
	.create_qp = rnic_create_qp,
	.dealloc_pd = rnic_dealloc_pd,
	.dealloc_ucontext = rnic_dealloc_ucontext,
	.dereg_mr = rnic_dereg_mr,
	.destroy_ah = rnic_destroy_ah,
	.destroy_cq = rnic_destroy_cq,
	.destroy_qp = rnic_destroy_qp,
	.disassociate_ucontext = rnic_disassociate_ucontext,
	.get_dma_mr = rnic_get_dma_mr,
	.map_mr_sg = rnic_map_mr_sg,
	.modify_qp = rnic_modify_qp,
	.poll_cq = rnic_poll_cq,
	.post_recv = rnic_post_recv,
	.post_send = rnic_post_send,
	.query_qp = rnic_query_qp,
	.reg_user_mr = rnic_reg_user_mr,
	.req_notify_cq = rnic_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, rnic_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, rnic_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, rnic_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, rnic_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, rnic_ucontext, ibucontext),
};
